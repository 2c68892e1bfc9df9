"""One damped inverse of one factor: its variables and its update.

The algebra and the failure policy are in `kfac.linalg`; which damping to use is the block's
business. Called by `FisherFactor`.
"""

import typing
from collections.abc import Callable

import tensorflow as tf

from kfac import linalg
from kfac._types import DType, Tensor, Variable
from kfac.state import Assignment, make_variable, read


@typing.final
class InverseSlot:
    """(M + d·I)⁻¹ kept in a variable that starts at zero.

    A step made before the first inverse therefore changes nothing.

    Attributes:
      name: Path of the variables below `kfac/`.
    """

    def __init__(self, name: str, damping: Callable[[], Tensor]) -> None:
        """Makes no variables yet.

        Args:
          name: Path of the variables below `kfac/`.
          damping: Returns d, shape [], whenever the inverse is recomputed.
        """
        self.name = name
        self._damping = damping
        self._inverse: Variable = None
        self._rare_paths: Variable = None

    def make_variables(self, dimension: int, dtype: DType, device: str) -> None:
        """Makes the inverse [dimension, dimension] and its counters, once."""
        if self._inverse is None:
            shape, counters = [dimension, dimension], [len(linalg.RARE_PATHS)]
            self._inverse = make_variable(f"{self.name}/inverse", shape, dtype, device)
            self._rare_paths = make_variable(
                f"{self.name}/inverse_rare_paths", counters, tf.int64, device
            )

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The inverse and the counters; empty before they are made."""
        return () if self._inverse is None else (self._inverse, self._rare_paths)

    def read(self) -> Tensor:
        """Reads the inverse [n, n] now."""
        return read(self._inverse)

    def read_rare_paths(self) -> Tensor:
        """Reads how often each of `linalg.RARE_PATHS` was taken so far, int64 [3]."""
        return read(self._rare_paths)

    def updated(self, matrix: Tensor) -> list[Assignment]:
        """Inverts `matrix` [n, n] anew; returns the new values of `variables`."""
        result = linalg.damped_inverse(matrix, self._damping(), self.read())
        counts = self.read_rare_paths() + result.rare_paths
        return [Assignment(self._inverse, result.inverse), Assignment(self._rare_paths, counts)]
