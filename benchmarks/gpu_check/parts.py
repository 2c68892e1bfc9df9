"""Parts of the check: their functions, their time limits, and the machines that can run them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from benchmarks.gpu_check.devices import Gpu

TENSOR_FLOAT_32_CAPABILITY = (8, 0)
"""Lowest compute capability with TensorFloat-32."""


def _any_machine(gpus: Sequence[Gpu]) -> str:
    del gpus
    return ""


def _needs_gpu(gpus: Sequence[Gpu]) -> str:
    return "" if gpus else "no GPU"


def _needs_tensor_float_32(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no GPU"
    if gpus[0].compute_capability >= TENSOR_FLOAT_32_CAPABILITY:
        return ""
    found = ".".join(map(str, gpus[0].compute_capability)) or "unknown"
    return f"{gpus[0].name} has no TensorFloat-32: compute capability {found}, needed is 8.0"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the check.

    Attributes:
      module: Module of this package.
      function: Its function from `Devices` to `Outcome`.
      seconds: Time limit.
      reason_to_skip: Function of the GPUs. Returns "" if they can run the part.
    """

    module: str
    function: str
    seconds: float
    reason_to_skip: Callable[[Sequence[Gpu]], str] = _any_machine


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "tests": Part("gpu_tests", "run", 90, _needs_gpu),
        "towers": Part("towers", "compare", 100),
        "towers_tf32": Part("towers", "compare_tensor_float_32", 100, _needs_tensor_float_32),
        "inverses": Part("inverses", "invert", 70),
        "mixed_precision": Part("mixed_precision", "compare", 70),
        "profile": Part("profile", "trace", 70),
        "steps": Part("steps", "compare", 90),
    }
)
"""Parts by name, in the order in which they run. Their limits add up to less than ten minutes."""
