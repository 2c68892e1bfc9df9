"""Copies of one model on several devices: clones, shared variables, summed gradients.

`deploy` builds and trains the clones of a model. `create_clones` and `optimize_clones` are its two
halves. The package can be used alone. `replicate` builds its towers from the modules below these
three functions.
"""

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "model_deploy needs TensorFlow, which is not installed: "
        "pip install tensorflow-cpu (or, for GPUs, 'tensorflow[and-cuda]')."
    ) from None

from model_deploy.clones import Clone, create_clones
from model_deploy.config import DeploymentConfig
from model_deploy.deploy import DeployedModel, deploy
from model_deploy.devices import (
    DevicePlan,
    SharedPlacement,
    VariablePlacer,
    canonical_device,
    device_plan,
    local_devices,
)
from model_deploy.gradients import sum_gradients, sum_over_copies
from model_deploy.optimize import optimize_clones
from model_deploy.packing import cross_in_packs
from model_deploy.reduction import GradientReduction, reduce_over_copies
from model_deploy.variables import SharedVariables

__all__ = [
    "Clone",
    "DeployedModel",
    "DeploymentConfig",
    "DevicePlan",
    "GradientReduction",
    "SharedPlacement",
    "SharedVariables",
    "VariablePlacer",
    "canonical_device",
    "create_clones",
    "cross_in_packs",
    "deploy",
    "device_plan",
    "local_devices",
    "optimize_clones",
    "reduce_over_copies",
    "sum_gradients",
    "sum_over_copies",
]
