"""tf.contrib.training: training and evaluation loops of tf-slim, and placement strategies."""

from typing import Any

from replicate.compat.contrib.repaired_slim.loading import name_of_slim, names_of_slim
from replicate.compat.contrib.training.device_strategies import (
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    byte_size_load_fn,
)
from replicate.compat.contrib.training.hparams import HParams

__all__ = [
    "GreedyLoadBalancingStrategy",
    "HParams",
    "RandomStrategy",
    "byte_size_load_fn",
]

Hparams = HParams

_HOMES = ("training", "training.training", "training.evaluation")


def __dir__() -> list[str]:
    return sorted({*__all__, *names_of_slim(_HOMES)})


def __getattr__(name: str) -> Any:
    return name_of_slim(name, _HOMES, __name__)
