"""GPUs of this machine, and the devices on which the towers of the checks run.

The main process does not import TensorFlow, so that it takes no GPU memory. It runs this module as
a program to find the GPUs, chooses the devices, and passes them to each part.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from benchmarks import harness
from examples.lazy_module import LazyModule

tf = LazyModule("tensorflow")


MOST_TOWERS = 4
TOWERS_WITHOUT_GPUS = 2
"""Towers on one GPU, and on a machine without any."""
LARGEST_PART = 8 * 2**30
"""Largest memory, in bytes, of one of two logical devices on a GPU."""
SHARE_OF_PART = 0.4
"""Share of a GPU's memory that one of two logical devices gets at most."""


class Gpu(NamedTuple):
    """A GPU, as TensorFlow sees it.

    Attributes:
      name: Name of the model, such as "NVIDIA A100".
      compute_capability: Major and minor number; empty if TensorFlow does not know them.
      memory: Bytes that TensorFlow can use.
    """

    name: str
    compute_capability: tuple[int, ...]
    memory: int


class Devices(NamedTuple):
    """The devices of the towers.

    Attributes:
      names: Device of each tower.
      part_megabytes: Memory of each logical device if one GPU is split into them, else None.
    """

    names: tuple[str, ...]
    part_megabytes: int | None = None

    @property
    def are_gpus(self) -> bool:
        """True if the towers run on GPUs."""
        return self.names[0].startswith("/gpu:")

    def __str__(self) -> str:
        """Returns the devices as one line for a terminal."""
        split = f", one GPU in parts of {self.part_megabytes} MiB" if self.part_megabytes else ""
        return f"{len(self.names)} towers on {' '.join(self.names)}{split}"


def choose_devices(gpus: list[Gpu]) -> Devices:
    """Chooses a GPU for each tower; two parts of one GPU; or logical CPU devices."""
    if not gpus:
        return Devices(tuple(harness.cpu_names(TOWERS_WITHOUT_GPUS)))
    count = min(len(gpus), MOST_TOWERS) if len(gpus) > 1 else TOWERS_WITHOUT_GPUS
    names = tuple(f"/gpu:{index}" for index in range(count))
    part = min(LARGEST_PART, int(SHARE_OF_PART * gpus[0].memory)) // 2**20
    return Devices(names, part if len(gpus) == 1 else None)


def set_up(devices: Devices) -> None:
    """Makes the logical devices of this process. Call this before TensorFlow runs anything.

    Ops without a kernel for GPUs then run on the CPU, as they do in an Estimator. Sessions without
    options refuse them otherwise.
    """
    tf.config.set_soft_device_placement(True)
    if not devices.are_gpus:
        harness.divide_cpu(len(devices.names))
    elif devices.part_megabytes:
        part = tf.config.LogicalDeviceConfiguration(memory_limit=devices.part_megabytes)
        (gpu,) = tf.config.list_physical_devices("GPU")
        tf.config.set_logical_device_configuration(gpu, [part] * len(devices.names))


def find_gpus() -> list[Gpu]:
    """Finds the GPUs in another process, which gives their memory back when it ends."""
    found = harness.read_json(harness.command("gpu_check.machine"), "look for GPUs", seconds=300)
    return [Gpu(name, tuple(capability), memory) for name, capability, memory in found]


def _find_gpus_here() -> list[Gpu]:
    physical = tf.config.list_physical_devices("GPU")
    for gpu in physical:
        tf.config.experimental.set_memory_growth(gpu, True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        listed = [device for device in session.list_devices() if device.device_type == "GPU"]
    found = []
    for gpu, device in zip(physical, listed, strict=True):
        details = tf.config.experimental.get_device_details(gpu)
        capability = tuple(details.get("compute_capability") or ())
        name = details.get("device_name", "unknown GPU")
        found.append(Gpu(name, capability, device.memory_limit_bytes))
    return found


if __name__ == "__main__":
    print(json.dumps(_find_gpus_here()))
