"""The losses of a model by name, with one entry per tower, and their evaluation.

What a loss means is in `kfac.loss_functions`. Called by the layer collection.
"""

import types
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.linalg import as_scalar
from kfac.loss_functions import LossFunction
from kfac.reuse import is_reuse

v1 = tf.compat.v1

_COEFFICIENTS: Mapping[str, Callable[[float], float]] = types.MappingProxyType(
    {"regular": lambda c: c, "sqrt": lambda c: c**0.5, "off": lambda _: 1.0}
)


class LossEntry(NamedTuple):
    """What belongs to one loss name, in all towers.

    Attributes:
      coeff: Weight of the loss.
      seed: Distinguishes its samples from those of other losses.
      towers: The loss of each tower.
    """

    coeff: float
    seed: str
    towers: tuple[LossFunction, ...]


class LossTable:
    """Losses by name, in order of registration."""

    def __init__(self) -> None:
        """Makes an empty table."""
        self._entries: dict[str, LossEntry] = {}

    @property
    def entries(self) -> Mapping[str, LossEntry]:
        """The losses by name."""
        return types.MappingProxyType(self._entries)

    def resolve_name(self, name: str | None, coeff: float, reuse: bool | str) -> str:
        """Checks a registration before anything is kept, and names an unnamed loss.

        Args:
          name: Name of the loss, or None.
          coeff: Weight of the loss.
          reuse: As in `kfac.reuse.is_reuse`.

        Raises:
          ValueError: A tower is added without a name or with another coefficient, or the
            coefficient is not positive.
          KeyError: The name is unknown under reuse, or taken without it.
        """
        reusing = is_reuse(reuse, name in self._entries)
        if name is None and reusing:
            raise ValueError(
                "Cannot add a tower to a loss: reuse is True and the loss has no name, so it is "
                "unclear to which loss the tower belongs. Pass name=..., the same in all towers."
            )
        if not coeff > 0:
            raise ValueError(f"Cannot register loss {name!r}: coeff={coeff!r}. It must be > 0.")
        known = None if name is None else self._entries.get(name)
        if reusing and known is None:
            raise KeyError(
                f"Cannot add a tower to loss {name!r}: reuse is True and no loss of that name was "
                f"registered. Registered are: {sorted(self._entries)}."
            )
        if not reusing and known is not None:
            raise KeyError(
                f"Cannot register loss {name!r}: there is one of that name already. Choose another "
                "name, or reuse=True to add a tower to it."
            )
        if known is not None and known.coeff != coeff:
            raise ValueError(
                f"Cannot add a tower to loss {name!r}: its coefficient was {known.coeff}, now it "
                f"is {coeff}. All towers must use the same."
            )
        return self._unused_name() if name is None else name

    def _unused_name(self) -> str:
        numbered = (f"loss_{i}" for i in range(len(self._entries) + 1))
        return next(name for name in numbered if name not in self._entries)

    def add(self, loss: LossFunction, coeff: float, seed: int | None) -> None:
        """Adds a tower under `loss.name`; `resolve_name` has checked that it may be.

        Args:
          loss: The tower's loss.
          coeff: Weight of the loss.
          seed: Seeds its samples; None means to go by the name.
        """
        new = LossEntry(coeff, loss.name if seed is None else str(seed), ())
        known = self._entries.get(loss.name, new)
        self._entries[loss.name] = known._replace(towers=(*known.towers, loss))

    def evaluate(self, target_mode: str, coeff_mode: str, sample_step: Scalar) -> list[Tensor]:
        """Evaluates the losses of all towers, each on its tower's device.

        Args:
          target_mode: "data" for registered targets, "sample" for drawn ones.
          coeff_mode: Multiply by the coefficient ("regular"), by its root ("sqrt") or not ("off").
          sample_step: With "sample": another step gives other samples, int64 [].

        Returns:
          One Tensor [] per loss and tower: a sum over examples.

        Raises:
          ValueError: A mode is unknown, or targets are missing.
        """
        if target_mode not in {"data", "sample"} or coeff_mode not in _COEFFICIENTS:
            raise ValueError(
                f"Cannot evaluate losses: target_mode={target_mode!r}, coeff_mode={coeff_mode!r}. "
                f"Accepted are 'data' and 'sample', and {', '.join(map(repr, _COEFFICIENTS))}."
            )
        values = []
        for entry in self._entries.values():
            scale = _COEFFICIENTS[coeff_mode](entry.coeff)
            for tower, loss in enumerate(entry.towers):
                with v1.device(loss.inputs.device):
                    if target_mode == "data":
                        value = loss.evaluate()
                    else:
                        value = loss.evaluate_on_sample(_seed(entry.seed, tower, sample_step))
                    values.append(value * as_scalar(scale, value.dtype))
        return values


def _seed(loss_seed: str, tower: int, sample_step: Scalar) -> Tensor:
    """Returns the seed [2] of one tower's samples, different for each loss, tower and step."""
    source = zlib.crc32(f"{loss_seed}/{tower}".encode())
    return tf.stack([tf.constant(source, tf.int64), tf.cast(sample_step, tf.int64)])
