import pytest
import tensorflow as tf

from benchmarks.gpu_check import idle_time
from benchmarks.gpu_check.idle_time import BEGIN, END, Gap, Interval

v1 = tf.compat.v1

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


@pytest.mark.parametrize(
    ("intervals", "gaps"),
    [
        ([], [Gap(0, 100, BEGIN, END)]),
        ([(0, 100, "a")], []),
        (
            [(10, 30, "a"), (20, 40, "b"), (60, 90, "c")],
            [Gap(0, 10, BEGIN, "a"), Gap(40, 60, "b", "c"), Gap(90, 100, "c", END)],
        ),
        ([(60, 90, "c"), (0, 70, "a"), (20, 30, "b")], [Gap(90, 100, "c", END)]),
        ([(0, 50, "a"), (50, 100, "b")], []),
        ([(0, 0, "source"), (40, 100, "a")], [Gap(0, 40, "source", "a")]),
    ],
)
def test_gaps(intervals, gaps):
    found = idle_time.find_gaps([Interval(*each) for each in intervals], 0, 100)
    assert found == gaps
    times = {time for start, end, _ in intervals for time in range(start, end)}
    assert sum(gap.length for gap in found) == 100 - len(times)


def stats(step_stats, device, *nodes, scale="micros"):
    told = step_stats.dev_stats.add(device=device)
    for name, start, end, label in nodes:
        times = {
            f"all_start_{scale}": 1000,
            f"op_start_rel_{scale}": start,
            f"op_end_rel_{scale}": end,
        }
        told.node_stats.add(node_name=name, timeline_label=label, **times)


def test_busy_time_of_a_gpu_is_that_of_its_kernels_and_copies():
    step_stats = v1.RunMetadata().step_stats
    stats(step_stats, GPU, ("matmul", 0, 1, ""))
    stats(step_stats, "/device:GPU:0/stream:all", ("matmul", 2, 8, ""))
    stats(step_stats, "/device:GPU:0/memcpy", ("copy", 5, 9, ""))
    stats(step_stats, CPU, ("add", 3, 4, ""), ("wait", 0, 90, "edge_1 = _Recv(other)"))
    found = idle_time.read_trace(step_stats)
    assert found == {
        "CPU:0": ([Interval(1_003_000, 1_004_000, "add")], False),
        "GPU:0": (
            [Interval(1_002_000, 1_008_000, "matmul"), Interval(1_005_000, 1_009_000, "copy")],
            True,
        ),
    }
    assert idle_time.span(found) == (1_002_000, 1_009_000)


def test_nanoseconds_are_preferred():
    step_stats = v1.RunMetadata().step_stats
    stats(step_stats, GPU, ("matmul", 20, 30, ""), scale="nanos")
    assert idle_time.read_trace(step_stats)["GPU:0"] == ([Interval(1020, 1030, "matmul")], False)
