"""Towers that a process gives to programs which do not say on which devices they train.

`python -m replicate.compat --num_towers=N` enters `default_towers` around a program. Then
`replicate_model_fn` without devices, and each Estimator whose model_fn is not replicated, use these
towers. Importing this module loads no TensorFlow, since the runner leaves that to the program.
"""

import contextlib
import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class DefaultTowers:
    """Towers of all models that a process trains.

    Attributes:
      count: Number of towers, ≥ 1; None if devices are given.
      devices: Device of each tower, such as "/gpu:0"; empty if their number is given.
    """

    count: int | None = None
    devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
          ValueError: Both or neither is given, or the number is below 1.
        """
        if (self.count is None) == (not self.devices):
            raise ValueError(
                f"Towers are given by their number or by their devices, got num_towers="
                f"{self.count!r} and devices={list(self.devices)!r}. Give one of them."
            )
        if self.count is not None and self.count < 1:
            raise ValueError(f"num_towers must be a whole number >= 1, got {self.count!r}.")

    def resolved(self) -> tuple[str, ...]:
        """Returns the device of each tower: the first GPUs, or without GPUs the CPU for all.

        Raises:
          ValueError: There are GPUs, but fewer than towers.
        """
        from model_deploy.devices import CPU, local_devices  # noqa: PLC0415  # Loads TensorFlow.

        if self.count is None:
            return self.devices
        gpus = local_devices("GPU")
        if not gpus:
            return (CPU,) * self.count
        if len(gpus) < self.count:
            raise ValueError(
                f"Cannot train on {self.count} towers: this process has {len(gpus)} GPUs. Ask for "
                f"at most {len(gpus)} towers, or name the devices: --devices=/gpu:0,/gpu:0 puts "
                "two towers on one GPU."
            )
        return gpus[: self.count]


@dataclasses.dataclass
class TowersInForce:
    """Default towers inside their context, and whether a model has asked for them."""

    towers: DefaultTowers
    are_used: bool = False


_in_force: list[TowersInForce] = []


@contextlib.contextmanager
def default_towers(towers: DefaultTowers) -> Iterator[TowersInForce]:
    """Gives towers to all models that are built in this process inside the context."""
    given = TowersInForce(towers)
    _in_force.append(given)
    try:
        yield given
    finally:
        _in_force.remove(given)


def default_devices() -> tuple[str, ...] | None:
    """Returns the device of each default tower; None without default towers.

    Raises:
      ValueError: As `DefaultTowers.resolved`.
    """
    if not _in_force:
        return None
    _in_force[-1].are_used = True
    return _in_force[-1].towers.resolved()
