"""Initial values of the workers: those of the chief, initialised or from its checkpoint."""

from collections.abc import Sequence
from typing import final

import tensorflow as tf

from replicate._types import Operation, Variable
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.packs import packs_of

v1 = tf.compat.v1

_PACK_BYTES = 64 << 20


@final
class InitialValues:
    """Operations that give all workers the chief's variables and its place in the input.

    Make it when the graph has all its variables; it adds operations to the default graph.
    """

    def __init__(self, group: WorkerGroup):
        """Adds the operations.

        Args:
          group: The workers.

        Raises:
          ValueError: The shape of a variable is not known.
          TypeError: The type of a variable cannot be sent.
        """
        with v1.name_scope("initial_values"):
            self._copy = _copy(v1.global_variables(), group)
            self._elements = v1.placeholder_with_default(tf.constant(0, tf.int64), [])
            self._chief_elements = group.broadcast(self._elements)

    def copy(self, session: v1.Session) -> None:
        """Sends the chief's values, or receives them in the variables of another worker."""
        session.run(self._copy)

    def elements(self, session: v1.Session, own: int = 0) -> int:
        """Returns the number of batches that the chief has read before.

        Args:
          session: Session of this worker.
          own: That number, in the chief.
        """
        return int(session.run(self._chief_elements, {self._elements: own}))


def _copy(variables: Sequence[Variable], group: WorkerGroup) -> list[Operation]:
    for variable in variables:
        if not variable.shape.is_fully_defined():
            raise ValueError(
                f"AllReduce needs the shapes of all variables, and that of {variable.op.name!r} is "
                f"{variable.shape}. Make it with a full shape."
            )
    values = [variable.read_value() for variable in variables]
    copies: list[Operation] = []
    for pack in packs_of(values, _PACK_BYTES):
        for place, value in zip(pack.places, pack.through(group.broadcast), strict=True):
            copies.append(value.op if group.is_chief else v1.assign(variables[place], value).op)
    return copies
