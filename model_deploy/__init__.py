"""Copies of one model on several devices: devices, shared variables, reduced gradients.

This package is usable alone; `replicate` builds its towers on it.
"""

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "model_deploy needs TensorFlow, which is not installed: "
        "pip install 'replicate-model-fn[cpu]' (or [gpu])."
    ) from None

from model_deploy.devices import (
    DevicePlan,
    VariablePlacer,
    canonical_device,
    device_plan,
    local_devices,
)
from model_deploy.gradients import sum_gradients, sum_over_copies
from model_deploy.variables import SharedVariables

__all__ = [
    "DevicePlan",
    "SharedVariables",
    "VariablePlacer",
    "canonical_device",
    "device_plan",
    "local_devices",
    "sum_gradients",
    "sum_over_copies",
]
