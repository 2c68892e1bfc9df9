from typing import NamedTuple

import pytest
import tensorflow as tf

from benchmarks.gpu_check import devices
from benchmarks.gpu_check.devices import Devices, Gpu, choose_devices

A100 = Gpu("A100", (8, 0), 38 * 2**30)
SMALL = Gpu("T4", (7, 5), 10 * 2**30)


@pytest.mark.parametrize(
    ("gpus", "chosen"),
    [
        ([], Devices(("/cpu:0", "/cpu:1"))),
        ([A100], Devices(("/gpu:0", "/gpu:1"), 8192)),
        ([SMALL], Devices(("/gpu:0", "/gpu:1"), 4096)),
        ([A100] * 3, Devices(("/gpu:0", "/gpu:1", "/gpu:2"))),
        ([A100] * 8, Devices(("/gpu:0", "/gpu:1", "/gpu:2", "/gpu:3"))),
    ],
)
def test_choice(gpus, chosen):
    assert choose_devices(gpus) == chosen


def test_line_for_a_terminal():
    assert str(choose_devices([A100] * 2)) == "2 towers on /gpu:0 /gpu:1"
    assert str(choose_devices([SMALL])).endswith("/gpu:1, one GPU in parts of 4096 MiB")


def test_set_up_splits_one_gpu(monkeypatch):
    made, soft = [], []
    monkeypatch.setattr(tf.config, "set_soft_device_placement", soft.append)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"physical {kind}"])
    monkeypatch.setattr(
        tf.config, "set_logical_device_configuration", lambda *arguments: made.append(arguments)
    )
    devices.set_up(choose_devices([SMALL]))
    devices.set_up(choose_devices([SMALL] * 2))
    devices.set_up(choose_devices([]))
    (gpu, parts), (cpu, cpus) = made
    assert (gpu, cpu) == ("physical GPU", "physical CPU")
    assert soft == [True] * 3
    assert [part.memory_limit for part in parts] == [4096, 4096]
    assert len(cpus) == 2


class Listed(NamedTuple):
    """Device in the list of a session."""

    device_type: str
    memory_limit_bytes: int


def test_gpus_are_found_with_name_and_memory(monkeypatch):
    details = {"one": {"device_name": "T4", "compute_capability": (7, 5)}, "two": {}}
    listed = [Listed("CPU", 1), Listed("GPU", 10), Listed("GPU", 20)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(details))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, grows: None)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details.get)
    monkeypatch.setattr(tf.compat.v1.Session, "list_devices", lambda session: listed)
    assert devices._find_gpus_here() == [Gpu("T4", (7, 5), 10), Gpu("unknown GPU", (), 20)]
