"""A linear map of several inputs, whose variables are "kernel" and "bias" of the current scope."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


class Linear:
    """A linear map of the concatenation of its inputs."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        """Makes the variables.

        Args:
          args: Inputs, one tensor [batch, size] or several, for their sizes and type.
          output_size: Columns of the output.
          build_bias: True to add a bias.
          bias_initializer: Initializer of the bias, zeros if None.
          kernel_initializer: Initializer of the kernel, that of the scope if None.

        Raises:
          ValueError: There are no inputs, or one is not a matrix of known width.
        """
        inputs = _listed(args)
        widths = [_width(each) for each in inputs]
        dtype = inputs[0].dtype
        self._kernel = v1.get_variable(
            "kernel", [sum(widths), output_size], dtype, initializer=kernel_initializer
        )
        self._bias = None
        if build_bias:
            zeros = v1.zeros_initializer()
            self._bias = v1.get_variable(
                "bias", [output_size], dtype, initializer=bias_initializer or zeros
            )

    def __call__(self, args: Any) -> Tensor:
        """Maps inputs; arguments as for the constructor."""
        return affine(_listed(args), self._kernel, self._bias)


def linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> Tensor:
    """Makes a `Linear` and maps the inputs; arguments and errors are those of `Linear`."""
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


def affine(inputs: Sequence[Tensor], kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Maps the concatenation of inputs [batch, size] by a kernel [sum of the sizes, output]."""
    outputs = tf.matmul(inputs[0] if len(inputs) == 1 else tf.concat(inputs, 1), kernel)
    return outputs if bias is None else tf.nn.bias_add(outputs, bias)


def _listed(args: Any) -> Sequence[Tensor]:
    inputs = tf.nest.flatten(args)
    if not inputs or any(each is None for each in inputs):
        raise ValueError(f"A linear map needs one or more inputs, got {args!r}.")
    return [tf.convert_to_tensor(each) for each in inputs]


def _width(each: Tensor) -> int:
    shape = each.shape.as_list() if each.shape.rank is not None else None
    if shape is None or len(shape) != 2 or shape[1] is None:
        raise ValueError(
            f"A linear map needs matrices of known width, got {each.name} of shape {each.shape}."
        )
    return int(shape[1])
