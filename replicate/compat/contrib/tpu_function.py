"""The tpu_function of tf.contrib.tpu: how many shards of a TPU there are, where there is none."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TpuContext:
    """Facts that a model asks for about its TPU.

    Attributes:
      number_of_shards: None, since there is no TPU.
    """

    number_of_shards: int | None = None


def get_tpu_context() -> TpuContext:
    """Returns the context of a process without a TPU."""
    return TpuContext()
