"""Profiles of steps, and the costs of operations in them."""

import io
import re

import tensorflow as tf

from replicate.estimator.hooks.profiling import OpCost, ProfileHook, add_costs
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook

v1 = tf.compat.v1


def costly_model():
    """A step counter, and a loss made by one matrix product that outweighs everything else."""
    step_op = v1.assign_add(v1.train.create_global_step(), 1).op
    table = v1.get_variable("table", [300, 300], use_resource=True)
    product = tf.matmul(table, table, name="heavy")
    return StepReadings(step_op, tf.reduce_mean(product, name="light"))


def run(readings, folder, steps, last_step, others=()):
    stream = io.StringIO()
    hook = ProfileHook(readings, str(folder), steps, stream)
    loop = StepLoop(readings, [*others, hook, StopHook(readings, last_step)])
    with v1.train.MonitoredSession(hooks=loop.hooks) as session:
        loop.run(session)
    hook.close()
    return stream.getvalue()


def traces(folder):
    return list(folder.glob("plugins/profile/*/*.xplane.pb"))


def test_trace_and_table_of_the_costliest_operations(graph, tmp_path):
    class Counting(v1.train.SessionRunHook):
        steps = 0

        def after_run(self, run_context, run_values):
            self.steps += 1

    text = run(costly_model(), tmp_path, (3, 4), 9, [other := Counting()])
    (trace,) = traces(tmp_path)
    assert trace.read_bytes().count(b"heavy") >= 1
    first, titles, *rows = text.splitlines()
    told = re.fullmatch(r"\d+ operations took ([\d.]+) ms in 2 steps; the costliest:", first)
    assert titles.split() == ["operation", "type", "device", "count", "total", "ms", "share"]
    assert 3 <= len(rows) <= 10
    name, kind, device, count, milliseconds, share = rows[0].split()
    assert (name, kind, device, count) == ("heavy", "MatMul", "CPU:0", "2")
    assert 0 < float(milliseconds) <= float(told[1])
    assert 20 < float(share.rstrip("%")) <= 100
    assert other.steps == 9


def test_incomplete_trace_is_written(graph, tmp_path):
    assert run(costly_model(), tmp_path, (2, 5), 3) == ""
    (trace,) = traces(tmp_path)
    assert b"heavy" in trace.read_bytes()


def test_run_that_starts_later_records_nothing(graph, tmp_path):
    readings = costly_model()
    begin = readings.after_create_session
    readings.after_create_session = lambda session: (
        v1.train.get_global_step().load(7, session),
        begin(session),
    )
    assert run(readings, tmp_path, (2, 3), 2) == ""
    assert readings.step == 9
    assert traces(tmp_path) == []


def test_second_profiler_gives_a_warning(graph, tmp_path, caplog):
    tf.profiler.experimental.start(str(tmp_path / "other"))
    try:
        text = run(costly_model(), tmp_path / "own", (1, 1), 1)
    finally:
        tf.profiler.experimental.stop()
    assert text == ""
    assert "another profiler runs in this process" in caplog.text
    assert len(traces(tmp_path / "other")) == 1
    assert traces(tmp_path / "own") == []


def test_estimator_writes_trace_and_table(linear, tmp_path, capsys):
    estimator = linear.make_estimator(tmp_path, profile_steps=(2, 3))
    estimator.train(linear.input_fn, steps=6)
    assert len(traces(tmp_path)) == 1
    assert "in 2 steps; the costliest:\noperation" in capsys.readouterr().err


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
