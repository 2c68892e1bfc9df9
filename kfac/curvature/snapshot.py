"""A copy of all that inverses are computed from: averages, and the dampings of that moment.

Inverses that are computed while training goes on read the copy, since averages change in each step.
It is in variables that are saved with the others, so that a run that is continued computes the same
inverses. Called by `kfac.update.delayed_inverses`.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Tensor, Variable
from kfac.fisher_factors.base import FisherFactor, Known
from kfac.fisher_factors.slot import current_dampings
from kfac.state import CPU, Assignment, Change, make_variable, read

v1 = tf.compat.v1


@typing.final
class Snapshot:
    """Averages and dampings as they were when the copy was taken; zero before the first."""

    def __init__(self, factors: Sequence[FisherFactor]) -> None:
        """Makes the variables, beside the averages.

        Args:
          factors: Factors whose functions are to be computed, with their variables.
        """
        sources = (source for factor in factors for source in factor.inverse_sources)
        self._sources = tuple({source.name: source for source in sources}.values())
        self._averages = [
            make_variable(
                f"{source.name}/cov_snapshot",
                source.cov_shape,
                source.dtype,
                source.cov_variables[0].device,
            )
            for source in self._sources
        ]
        dampings = (damping for factor in factors for damping in factor.dampings)
        self._dampings = tuple({damping.name: damping for damping in dampings}.values())
        names = [len(self._dampings)]
        self._damping_values = make_variable("damping_snapshot", names, tf.float64, CPU)

    @property
    def variables(self) -> list[Variable]:
        """The averages, and a vector of the dampings."""
        return [*self._averages, self._damping_values]

    def taken(self) -> list[Change]:
        """Returns the changes of `variables` that take the averages and dampings of now."""
        dampings = current_dampings(self._dampings)
        with v1.device(CPU):
            values = [tf.cast(dampings[damping.name], tf.float64) for damping in self._dampings]
            vector = tf.stack(values) if values else tf.zeros([0], tf.float64)
        changes: list[Change] = [Assignment(self._damping_values, vector)]
        for source, variable in zip(self._sources, self._averages, strict=True):
            with v1.device(variable.device):
                changes.append(Assignment(variable, source.value))
        return changes

    def dampings(self) -> dict[str, Tensor]:
        """Reads the dampings, float64 [] each, by name."""
        with v1.device(CPU):
            values = tf.unstack(read(self._damping_values))
        return {damping.name: value for damping, value in zip(self._dampings, values, strict=True)}

    def averages(self) -> Known:
        """Reads the averages, by the factor's name."""
        pairs = zip(self._sources, self._averages, strict=True)
        return {source.name: read(variable) for source, variable in pairs}
