import tensorflow as tf

from replicate.estimator.hooks.op_costs import OpCost, add_costs, cost_table

v1 = tf.compat.v1


def stats(device, *nodes):
    told = v1.RunMetadata().step_stats.dev_stats.add(device=device)
    for name, label, micros in nodes:
        told.node_stats.add(
            node_name=name,
            timeline_label=label,
            op_start_rel_micros=2,
            op_end_rel_micros=2 + micros,
        )
    return told


def test_times_of_a_gpu_are_those_of_its_kernels(graph):
    tf.no_op(name="known")
    told = v1.RunMetadata().step_stats
    gpu = "/job:localhost/replica:0/task:0/device:GPU:1"
    told.dev_stats.extend(
        [
            stats(gpu, ("known", "", 1), ("fused", "", 1)),
            stats(f"{gpu}/stream:7", ("known:NoOp", "", 30)),
            stats(f"{gpu}/stream:all", ("known:NoOp", "", 30), ("fused", "fused = Made(known)", 5)),
            stats("/device:CPU:0", ("known", "", 2), ("odd", "", 0)),
        ]
    )
    costs = {}
    for _ in range(2):
        add_costs(costs, told, graph)
    assert sorted(costs.values()) == [
        OpCost("fused", "Made", "GPU:1", 2, 10),
        OpCost("known", "NoOp", "CPU:0", 2, 4),
        OpCost("known", "NoOp", "GPU:1", 2, 60),
        OpCost("odd", "-", "CPU:0", 2, 0),
    ]


def test_table_has_ten_rows_and_shares_of_all():
    costs = [OpCost(f"op{i}", "Add", "CPU:0", 1, 1000 * i) for i in range(1, 13)]
    assert cost_table(costs, 1).splitlines()[:3] == [
        "12 operations took 78.000 ms in 1 steps; the costliest:",
        "operation  type  device  count  total ms  share",
        "op12       Add   CPU:0       1    12.000  15.4%",
    ]
    assert len(cost_table(costs, 1).splitlines()) == 12
