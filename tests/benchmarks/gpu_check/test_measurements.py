"""Measurements of the check on GPUs, as they run on a CPU or on made-up profiles."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.gpu_check import idle_time, inverses, mixed_precision, profile, towers
from benchmarks.gpu_check.devices import choose_devices
from benchmarks.gpu_check.idle_time import BEGIN, END, Gap, Interval
from benchmarks.gpu_check.models import Mlp
from benchmarks.gpu_check.outcome import Verdict
from benchmarks.gpu_check.training import momentum

v1 = tf.compat.v1
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


@pytest.mark.parametrize("method", ["cholesky", "eigh"])
def test_inverses_are_within_the_limit(monkeypatch, method):
    outcome = inverses.invert(choose_devices([]), [method], [10])
    assert outcome.verdict is Verdict.OK, outcome.summary
    good, bad = (table.rows for table in outcome.tables)
    assert [row[0] for row in (*good, *bad)] == [method, method]
    assert all(0 < row[1] <= inverses.LIMIT for row in (*good, *bad))
    monkeypatch.setattr(inverses, "LIMIT", 1e-6)
    assert inverses.invert(choose_devices([]), [method], [10]).verdict is Verdict.FAILED


def test_float16_learns_as_float32_does(monkeypatch):
    monkeypatch.setattr(mixed_precision, "MODELS", {"MLP": Mlp})
    monkeypatch.setattr(mixed_precision, "BATCH_SIZE", 12)
    outcome = mixed_precision.compare(choose_devices([]), steps=6)
    assert outcome.verdict is Verdict.OK, outcome.summary
    ((_, first, last, last_half, _, skipped, factor),) = outcome.tables[0].rows
    assert last < first
    assert last_half < first
    assert 1 <= skipped <= mixed_precision.MOST_SKIPPED
    assert factor == 2.0 ** (24 - skipped)


def test_each_device_has_its_idle_share(monkeypatch):
    monkeypatch.setattr(profile, "OPTIMIZERS_SHOWN", ("momentum",))
    devices = choose_devices([])
    outcome = profile.trace(devices, steps=2, side=8)
    assert outcome.verdict is Verdict.OK, outcome.summary
    shares, gaps = outcome.tables
    assert [row[2] for row in shares.rows] == ["CPU:0", "CPU:1"]
    assert all(0 <= float(row[3].split()[0]) < 100 for row in shares.rows)
    lengths = [row[3] for row in gaps.rows]
    assert lengths == sorted(lengths, reverse=True)


def test_towers_of_logical_devices_are_equal(monkeypatch):
    monkeypatch.setattr(towers, "MODELS", {"MLP": lambda: Mlp(8)})
    monkeypatch.setattr(towers, "OPTIMIZERS", {"momentum": momentum})
    outcome = towers.compare(choose_devices([]), steps=3)
    assert outcome.verdict is Verdict.OK
    ((model, optimizer, difference, again, fall),) = outcome.tables[0].rows
    assert (model, optimizer) == ("MLP", "momentum")
    assert 0 <= difference <= towers.FLOAT32_LIMIT
    assert again <= towers.FLOAT32_LIMIT
    assert fall < 1
    expected = [np.array([1.0, -4.0]), np.array([[2.0]])]
    found = [np.array([1.0, -4.5]), np.array([[2.25]])]
    assert towers.relative_difference(found, expected) == 0.125
    monkeypatch.setattr(towers, "relative_difference", lambda found, expected: float("nan"))
    assert towers.compare(choose_devices([]), steps=1).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("intervals", "gaps"),
    [
        ([], [Gap(0, 100, BEGIN, END)]),
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


def stats(step_stats, device, *nodes):
    told = step_stats.dev_stats.add(device=device)
    for name, start, end, label in nodes:
        times = {"op_start_rel_micros": start, "op_end_rel_micros": end}
        told.node_stats.add(node_name=name, timeline_label=label, all_start_micros=1000, **times)


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
