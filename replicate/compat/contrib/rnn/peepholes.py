"""Variables of block LSTM cells, and the arguments that their operations take."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def known_width(cell: str, shape: Any) -> int:
    """Returns the last dimension of the inputs of a cell.

    Raises:
      ValueError: It is unknown.
    """
    dimensions = tf.TensorShape(shape)
    width = dimensions.as_list()[-1] if dimensions.rank else None
    if width is None:
        raise ValueError(f"{cell} needs inputs whose last dimension is known, got {shape}.")
    return int(width)


def lstm_variables(layer: Any, width: int, units: int, peepholes: bool) -> list[Any]:
    """Makes the variables of an LSTM cell for inputs of a width.

    Returns:
      [kernel, bias], or [kernel, bias, w_i_diag, w_f_diag, w_o_diag].
    """
    zeros = v1.zeros_initializer()
    variables = [
        layer.add_weight("kernel", [width + units, 4 * units]),
        layer.add_weight("bias", [4 * units], initializer=zeros),
    ]
    for gate in "ifo" if peepholes else "":
        variables.append(layer.add_weight(f"w_{gate}_diag", [units]))
    return variables


def block_arguments(variables: list[Any]) -> dict[str, Tensor]:
    """Returns the arguments w, b, wci, wcf and wco of the operations, from `lstm_variables`."""
    kernel, bias, *peepholes = map(tf.convert_to_tensor, variables)
    if not peepholes:
        peepholes = [tf.zeros([bias.shape.as_list()[0] // 4], bias.dtype)] * 3
    wci, wcf, wco = peepholes
    return {"w": kernel, "b": bias, "wci": wci, "wcf": wcf, "wco": wco}
