import tensorflow as tf

from benchmarks.gpu_check import profile
from benchmarks.gpu_check.devices import choose_devices
from benchmarks.gpu_check.outcome import Verdict


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


def test_a_device_without_ops_fails(monkeypatch):
    step_stats = tf.compat.v1.RunMetadata().step_stats
    device = step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:CPU:0")
    device.node_stats.add(node_name="add", all_start_micros=1, op_end_rel_micros=1)
    monkeypatch.setattr(profile, "OPTIMIZERS_SHOWN", ("momentum",))
    monkeypatch.setattr(profile, "_trace", lambda training, steps: [step_stats] * steps)
    outcome = profile.trace(choose_devices([]), steps=2, side=8)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.summary == "no op ran on /cpu:1 with momentum"
