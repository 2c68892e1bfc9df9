"""The interface of all losses: targets, samples, weights of examples, products with curvature.

A loss is −log p(targets) of a distribution whose parameters, its inputs, the model predicts. K-FAC
also needs the distribution's Fisher matrix F with respect to the inputs, a small matrix for each
example. F is an expectation over targets drawn from the model's own distribution. Exact estimates
propagate its factor B, with B Bᵀ = F, back through the model. Each family supplies the formulas for
one example; this module sums, weighs and checks. Called by the loss table and by everything that
multiplies by curvature.

References:
  Martens (2014), "New insights and perspectives on the natural gradient method",
  arXiv:1412.1193, §5 and §9.
  Martens, Sutskever & Swersky (2012), "Estimating the Hessian by back-propagating curvature",
  arXiv:1206.6464.
"""

import abc
import numbers
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from kfac._types import DType, Tensor
from kfac.linalg import tensor_ops
from kfac.seeds import fresh_numbers

Seed = Tensor | Sequence[int] | int | None
"""A pair of integers that fixes a draw; or an int or None for a new draw in each run."""

Inputs = Any
"""A Tensor, or a tuple of Tensors for a distribution with several kinds of parameters."""


class LossFunction(abc.ABC):
    """Negative log-probability of targets under a predicted distribution; a sum over examples.

    A weight per example multiplies that example's loss and Fisher matrix; a mask is a weight of
    zero or one, or of type bool.

    Attributes:
      inputs: The parameters of the distribution, the model's outputs.
      name: Name of the loss, the same in all towers.
      targets: The observed targets, or None if only samples will be needed.
      weights: [examples], or with more of the leading axes of the inputs; None means 1.
    """

    _has_natural_parameters: ClassVar[bool] = True
    """True if the inputs are natural parameters, up to an affine map: then GGN = Fisher."""

    _event_axes: ClassVar[int] = 0
    """Number of trailing axes of the inputs that describe one draw and therefore share a weight."""

    def __init__(
        self,
        inputs: Inputs,
        targets: Tensor | None,
        seed: int | None,
        name: str,
        weights: Tensor | None,
    ) -> None:
        """Keeps its arguments; shapes are checked when ops are built.

        `seed` is that of `evaluate_on_sample`; None means the graph's seed, if it has one.
        """
        self.inputs = inputs
        self.name = name
        self._first_input = tf.nest.flatten(inputs)[0]
        self.targets = targets
        self.weights = weights
        self._seed = seed

    @property
    def params(self) -> Inputs:
        """The same as `inputs`."""
        return self.inputs

    @property
    def dtype(self) -> DType:
        """Dtype of the inputs."""
        return self._first_input.dtype

    @property
    def device(self) -> str:
        """Device of the inputs."""
        return str(self._first_input.device)

    # The value.

    def sample(self, seed: Seed = None) -> Tensor:
        """Draws targets from the predicted distribution.

        Args:
          seed: An int or None draws anew in each run of a session; another session repeats the
            draws if the seed is an int or the graph has a seed. Two integers, as an int Tensor [2],
            a tuple or a list, give the same draw in all runs.

        Returns:
          Targets, in the form that the loss accepts.

        Raises:
          ValueError: The seed is none of these.
        """
        if seed is None or isinstance(seed, numbers.Integral):
            return self._sample(fresh_numbers([2], None if seed is None else int(seed)))
        pair = tf.convert_to_tensor(seed)
        if not pair.dtype.is_integer or not pair.shape.is_compatible_with([2]):
            raise ValueError(
                f"Cannot draw targets of loss {self.name!r}: the seed is a {pair.dtype.name} "
                f"Tensor of shape {pair.shape}. Accepted are None and Python ints, for another "
                "draw in each run of a session, and two integers, for the same draw in each run. "
                "Pass such a seed."
            )
        return self._sample(pair)

    @abc.abstractmethod
    def _sample(self, seed: Tensor) -> Tensor:
        """Draws targets; equal seeds, int [2], and inputs give equal samples."""

    @abc.abstractmethod
    def _negative_log_probabilities(self, targets: Tensor) -> Tensor:
        """Returns −log p(targets), shaped as the inputs, but with event axes of size 1."""

    def evaluate(self, root_weights: bool = False) -> Tensor:
        """Returns the weighted sum over examples of −log p(targets), shape [].

        Args:
          root_weights: True to weigh by the square roots of the weights.

        Raises:
          ValueError: The loss was registered without targets, or their shape does not fit.
        """
        if self.targets is None:
            raise ValueError(
                f"Cannot evaluate loss {self.name!r} on data: it has no targets. Register it with "
                "targets=..., or use estimation_mode='gradients', which samples them."
            )
        losses = self._negative_log_probabilities(tf.stop_gradient(self.targets))
        return tf.reduce_sum(self._weighted(losses, root_weights))

    def evaluate_on_sample(self, seed: Seed = None, root_weights: bool = False) -> Tensor:
        """Returns the sum over examples of −log p of targets drawn from the model, shape [].

        Args:
          seed: As in `sample`; None means the constructor's seed.
          root_weights: True to weigh by the square roots of the weights. The outer product of such
            a gradient has the expectation w·F.

        Raises:
          ValueError: As in `sample`.
        """
        targets = self.sample(self._seed if seed is None else seed)
        losses = self._negative_log_probabilities(tf.stop_gradient(targets))
        return tf.reduce_sum(self._weighted(losses, root_weights))

    def _weighted(self, values: Inputs, root: bool) -> Inputs:
        """Multiplies values shaped as the inputs by the weights or their roots."""
        if self.weights is None:
            return values
        weights = tf.cast(self._expanded_weights(), self.dtype)
        weights = tf.sqrt(weights) if root else weights
        return tf.nest.map_structure(lambda value: weights * value, values)

    def _expanded_weights(self) -> Tensor:
        """Returns the weights with axes of size 1 appended up to the rank of the inputs."""
        weights = tf.convert_to_tensor(self.weights)
        rank, given = self._first_input.shape.rank, weights.shape.rank
        if rank is None or given is None or given > rank - self._event_axes:
            raise ValueError(
                f"Cannot weigh the examples of loss {self.name!r}: its weights have shape "
                f"{weights.shape}, its inputs {self._first_input.shape}. Accepted are weights with "
                f"the leading axes of the inputs, without the last {self._event_axes}. Pass one "
                "weight per example, shape [batch]."
            )
        missing = [1] * (rank - given)
        return tf.reshape(weights, tf.concat([tf.shape(weights), missing], axis=0))

    def _targets_like_inputs(self, targets: Tensor) -> Tensor:
        """Returns targets, which must have the shape of the inputs, in the dtype of the inputs."""
        expected = self._first_input.shape
        if not targets.shape.is_compatible_with(expected):
            raise ValueError(
                f"Cannot evaluate loss {self.name!r}: its targets have shape {targets.shape}, its "
                f"inputs {expected}. They must be the same; reshape the targets."
            )
        return tf.cast(targets, self.dtype)

    # Products with the Fisher matrix of each example. Vectors are shaped as the inputs or, on the
    # inner side of the factor, as `fisher_factor_inner_shape`.

    @abc.abstractmethod
    def _fisher_product(self, vector: Inputs) -> Inputs:
        """Returns F v for each example."""

    @abc.abstractmethod
    def _factor_product(self, vector: Tensor) -> Inputs:
        """Returns B z for each example; z may have one more axis in front, of several vectors."""

    @abc.abstractmethod
    def _factor_transpose_product(self, vector: Inputs) -> Tensor:
        """Returns Bᵀ v for each example."""

    def multiply_fisher(self, vector: Inputs) -> Inputs:
        """Returns w·F v for each example, shaped as the inputs."""
        return self._weighted(self._fisher_product(vector), root=False)

    def multiply_fisher_factor(self, vector: Tensor) -> Inputs:
        """Returns √w·B z for each example, shaped as the inputs; z has the inner shape."""
        return self._weighted(self._factor_product(vector), root=True)

    def multiply_fisher_factor_transpose(self, vector: Inputs) -> Tensor:
        """Returns √w·Bᵀ v for each example, of the inner shape; v is shaped as the inputs."""
        return self._factor_transpose_product(self._weighted(vector, root=True))

    def multiply_fisher_factor_replicated_one_hot(self, index: Sequence[int]) -> Inputs:
        """Returns √w·B e for each example, with e the unit vector that is one at `index`.

        Args:
          index: Position in the inner shape, without its first axis of examples.

        Raises:
          ValueError: The inner shape has no static size there, or has another rank.
        """
        return self.multiply_fisher_factor_one_hots([index])[0]

    def multiply_fisher_factor_one_hots(self, indices: Sequence[Sequence[int]]) -> list[Inputs]:
        """Returns √w·B e for each of several unit vectors e, all computed together.

        Args:
          indices: Positions of their ones, each as in `multiply_fisher_factor_replicated_one_hot`.

        Raises:
          ValueError: An index has another length, or the inner shape no static size.
        """
        sizes = self.fisher_factor_inner_static_shape.as_list()[1:]
        wrong = [index for index in indices if len(index) != len(sizes)]
        if wrong or None in sizes:
            raise ValueError(
                f"Cannot multiply the unit vector {tuple((wrong or indices)[0])} by the factor of "
                f"loss {self.name!r}: vectors of an example have shape {sizes}. The index must "
                "have as many entries, and the shape must be static: set it with set_shape."
            )
        for index in indices:
            if not all(0 <= at < size for at, size in zip(index, sizes, strict=True)):
                raise ValueError(
                    f"Cannot multiply the unit vector {tuple(index)} by the factor of loss "
                    f"{self.name!r}: vectors of an example have shape {sizes}. Positions count "
                    "from 0."
                )
        ones = np.zeros([len(indices), 1, *sizes])
        for number, index in enumerate(indices):
            ones[(number, 0, *index)] = 1
        examples = self.fisher_factor_inner_shape[:1]
        shape = tf.concat([[len(indices)], examples, sizes], axis=0)
        units = tf.broadcast_to(tf.constant(ones, self.dtype), shape)
        products = self.multiply_fisher_factor(units)
        parts = [tf.unstack(part, len(indices)) for part in tf.nest.flatten(products)]
        columns = zip(*parts, strict=True)
        return [tf.nest.pack_sequence_as(self.inputs, list(column)) for column in columns]

    @property
    def fisher_factor_inner_shape(self) -> Tensor:
        """Shape of vectors that B multiplies, int [rank]."""
        return tf.shape(self._first_input)

    @property
    def fisher_factor_inner_static_shape(self) -> Any:
        """Static shape of vectors that B multiplies, a TensorShape."""
        return self._first_input.shape

    # The same products for the generalized Gauss-Newton matrix.

    def _check_ggn(self) -> None:
        if not self._has_natural_parameters:
            raise NotImplementedError(
                f"Loss {self.name!r} ({type(self).__name__}) has no generalized Gauss-Newton "
                "matrix that is positive semi-definite: it is not convex in its inputs. Use its "
                "Fisher matrix: estimation_mode 'gradients', 'curvature_prop' or 'exact'."
            )

    def multiply_ggn(self, vector: Inputs) -> Inputs:
        """Returns w·H v for each example, H being the Hessian with respect to the inputs.

        Raises:
          NotImplementedError: The loss is not convex in its inputs. The methods below raise it too.
        """
        self._check_ggn()
        return self.multiply_fisher(vector)

    def multiply_ggn_factor(self, vector: Tensor) -> Inputs:
        """Returns √w·B z with B Bᵀ = H; see `multiply_fisher_factor`."""
        self._check_ggn()
        return self.multiply_fisher_factor(vector)

    def multiply_ggn_factor_transpose(self, vector: Inputs) -> Tensor:
        """Returns √w·Bᵀ v with B Bᵀ = H; see `multiply_fisher_factor_transpose`."""
        self._check_ggn()
        return self.multiply_fisher_factor_transpose(vector)

    def multiply_ggn_factor_replicated_one_hot(self, index: Sequence[int]) -> Inputs:
        """Returns √w·B e with B Bᵀ = H; see `multiply_fisher_factor_replicated_one_hot`."""
        self._check_ggn()
        return self.multiply_fisher_factor_replicated_one_hot(index)

    def multiply_ggn_factor_one_hots(self, indices: Sequence[Sequence[int]]) -> list[Inputs]:
        """Returns √w·B e with B Bᵀ = H for several e; see `multiply_fisher_factor_one_hots`."""
        self._check_ggn()
        return self.multiply_fisher_factor_one_hots(indices)

    @property
    def ggn_factor_inner_shape(self) -> Tensor:
        """Shape of vectors that B multiplies, int [rank]."""
        self._check_ggn()
        return self.fisher_factor_inner_shape

    @property
    def ggn_factor_inner_static_shape(self) -> Any:
        """Static shape of vectors that B multiplies, a TensorShape."""
        self._check_ggn()
        return self.fisher_factor_inner_static_shape


class LogitsLoss(LossFunction):
    """A loss of logits [..., entries], which the model predicts.

    `targets` are observed ones, or None; `weights` have the leading axes of the logits, or fewer of
    them; None means 1. `seed` is that of `evaluate_on_sample`.
    """

    def __init__(
        self,
        logits: Tensor,
        targets: Tensor | None = None,
        seed: int | None = None,
        *,
        name: str = "loss",
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(logits, targets, seed, name, weights)


def insert_slice_in_zeros(
    slice_to_insert: Tensor, dim: int, dim_size: int, position: int
) -> Tensor:
    """Returns zeros with a slice in one place.

    Args:
      slice_to_insert: A Tensor of size 1 along axis `dim`.
      dim: The axis to widen.
      dim_size: New size of that axis.
      position: Position of the slice, in [0, dim_size).

    Raises:
      ValueError: The slice is not of size 1 along `dim`, or the position is out of range.
    """
    size = tensor_ops.static_size(slice_to_insert, dim)
    if size != 1:
        raise ValueError(
            f"Cannot insert a slice of shape {slice_to_insert.shape} into zeros: its size along "
            f"axis {dim} is {size}. It must be 1."
        )
    if not 0 <= position < dim_size:
        raise ValueError(
            f"Cannot insert a slice into zeros at position {position} of axis {dim}: the size of "
            f"that axis is {dim_size}. Positions count from 0."
        )
    paddings = [[0, 0] for _ in range(slice_to_insert.shape.rank)]
    paddings[dim] = [position, dim_size - position - 1]
    return tf.pad(slice_to_insert, paddings)
