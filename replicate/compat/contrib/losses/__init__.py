"""tf.contrib.losses: the losses of tf-slim, which take predictions before labels."""

from typing import Any

from replicate.compat.contrib.repaired_slim.loading import name_of_slim


def __getattr__(name: str) -> Any:
    return name_of_slim(name, ("losses", "losses.loss_ops"), __name__)
