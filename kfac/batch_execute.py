"""Update ops in turn, some in each step; defined in `kfac.scheduling`."""

from kfac.scheduling.batch_execute import (
    batch_execute,
)

__all__ = [
    "batch_execute",
]
