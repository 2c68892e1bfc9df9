"""Factors with more structure than a matrix, for which only some functions are available.

Extended by the factors of uncorrelated activations and of chains of uses.
"""

import abc

from kfac.config import CurvatureConfig
from kfac.fisher_factors.base import FisherFactor, Sources
from kfac.fisher_factors.kept_functions import KeptFunctions
from kfac.fisher_factors.slot import MatrixSlot
from kfac.linalg.damped_functions import DampedFunction


def unsupported_error(function: object, factor: str, known: str, remedy: str) -> ValueError:
    """Returns the error for a function that a factor's structure does not allow.

    Args:
      function: The function; its text, such as "power 0.5", goes into the message.
      factor: Name of the factor.
      known: Text that names the available functions and their approximation.
      remedy: Argument of the layer's registration that allows more functions.
    """
    return ValueError(
        f"Cannot compute the {function} of factor {factor!r}: {known} are known. "
        f"Register the layer with {remedy}."
    )


class StructuredFactor(FisherFactor):
    """A factor that offers only some functions; others raise an error."""

    def __init__(
        self,
        tensors: Sources,
        devices: tuple[str, ...],
        name: str,
        config: CurvatureConfig | None = None,
    ) -> None:
        """Takes the arguments of `FisherFactor`."""
        super().__init__(tensors, devices, name, config)
        self._functions = KeptFunctions(name, self._config, self.inverse_dtype)

    @abc.abstractmethod
    def _unsupported(self, function: DampedFunction) -> ValueError:
        """Returns the error that names the available functions and the remedy."""

    @property
    def inverses(self) -> tuple[MatrixSlot, ...]:
        """All registered functions, in order of registration."""
        return self._functions.slots
