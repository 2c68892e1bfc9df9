"""Variables that rounds keep beside those of the model: where they live, and which are saved."""

from typing import Any, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Variable
from replicate.graph_ops.own_variables import own_variable
from replicate.protocols import OPTIONAL_STATE

v1 = tf.compat.v1


@final
class RoundVariables:
    """Maker of variables. A checkpoint of other settings may lack all of the saved ones together.

    Attributes:
      is_cut: True if a checkpoint may be saved between the first and the last part of a round.
    """

    def __init__(self, is_cut: bool = False):
        """Makes none yet. `is_cut` is the attribute."""
        self.is_cut = is_cut
        self._saved: list[Variable] = []
        v1.add_to_collection(OPTIONAL_STATE, self)

    def get_name(self) -> str:
        """Returns the name of the owner, for messages."""
        return "AllReduce(every=…)"

    def variables(self) -> list[Variable]:
        """Returns the variables that are saved."""
        return list(self._saved)

    def saved(self, name: str, value: Any) -> Variable:
        """Makes a variable of this worker's own that is saved."""
        variable = own_variable(name, value, v1.GraphKeys.GLOBAL_VARIABLES)
        self._saved.append(variable)
        return variable

    def between(self, name: str, value: Any) -> Variable:
        """Makes one that a checkpoint needs only if it may be saved inside of a round."""
        if self.is_cut:
            return self.saved(name, value)
        return own_variable(name, value, v1.GraphKeys.LOCAL_VARIABLES)

    def counter(self, name: str, first: int = 0) -> Variable:
        """Makes an int64 variable [] as `between` does."""
        with v1.device(CPU):
            return self.between(name, tf.constant(first, tf.int64))
