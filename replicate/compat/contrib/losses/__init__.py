"""tf.contrib.losses: the losses of tf-slim, which take predictions before labels."""

from typing import Any

from replicate.compat.contrib.repaired_slim.loading import name_of_slim, names_of_slim

_HOMES = ("losses", "losses.loss_ops")


def __dir__() -> list[str]:
    return sorted(names_of_slim(_HOMES))


def __getattr__(name: str) -> Any:
    return name_of_slim(name, _HOMES, __name__)
