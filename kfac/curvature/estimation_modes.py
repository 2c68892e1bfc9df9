"""Estimation modes: the signals that are propagated back through a network for its curvature.

Every mode starts one or several back-propagations, its signals, from the losses. The second moments
of the signals that arrive at a layer's outputs, summed over signals, estimate that layer's block of
the Fisher matrix or of the generalized Gauss-Newton matrix (GGN). This module differentiates
nothing; `kfac.curvature.backward_pass` does that. Called by the estimator.

With the factor B of a loss, B Bᵀ = F (or = the Hessian with respect to the loss's inputs), and
its coefficient c:

  gradients           losses on targets drawn from the model, times √c   1 signal
  empirical           losses on the registered targets, times c          1 signal
  curvature_prop      √c·B r, r of random signs                          1 signal
  curvature_prop_GGN  the same with the GGN                              1 signal
  exact               √c·B e_k, e_k the k-th unit vector                 1 signal per k and loss
  exact_GGN           the same with the GGN                              1 signal per k and loss

References:
  Martens & Grosse (2015), arXiv:1503.05671, §5.
  Martens, Sutskever & Swersky (2012), arXiv:1206.6464.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from kfac._types import Scalar, Tensor
from kfac.arguments import check_choice
from kfac.linalg.tensor_ops import as_scalar
from kfac.loss_functions.base import LossFunction
from kfac.registration.loss_table import LossEntry, RegisteredLosses
from kfac.seeds import random_signs, stateless_seed

v1 = tf.compat.v1

FISHER, EMPIRICAL_FISHER, GGN = "Fisher", "Empirical_Fisher", "GGN"


COLUMNS = 16
"""Columns of B that are computed together, at most: they are all in memory at once."""


class Signal(NamedTuple):
    """One back-propagation: the tensors to differentiate, and the derivatives at each of them.

    None means ones.
    """

    starts: list[Tensor]
    derivatives: list[Tensor] | None = None


class EstimationMode(NamedTuple):
    """A way to estimate the matrix "Fisher", "Empirical_Fisher" or "GGN".

    Losses are evaluated on targets "data" or "sample". `coeff_mode` is the power of a loss's
    coefficient in the signal. `make_signals` takes the registered losses and the step of random
    draws; None means that the losses themselves are the only signal.
    """

    mat_type: str
    target_mode: str
    coeff_mode: str
    make_signals: Callable[[RegisteredLosses, Scalar], list[Signal]] | None = None


def _curvature_propagation(ggn: bool) -> Callable[..., list[Signal]]:
    """Back-propagates B times random signs: E[B r rᵀ Bᵀ] = B Bᵀ."""

    def make(losses: RegisteredLosses, step: Scalar) -> list[Signal]:
        parts = []
        for entry in losses.loss_table.entries.values():
            products = [
                _signs_product(ggn, loss, stateless_seed(entry.source(tower), step))
                for tower, loss in enumerate(entry.towers)
            ]
            parts.append(_signal(entry, _starts(entry), products))
        return [_joined(parts)]

    return make


def _signs_product(ggn: bool, loss: LossFunction, seed: Tensor) -> Sequence[Tensor]:
    """Returns B r, by input of the loss."""
    with v1.device(loss.device):
        if ggn:
            signs = random_signs(loss.ggn_factor_inner_shape, loss.dtype, seed)
            return tf.nest.flatten(loss.multiply_ggn_factor(signs))
        signs = random_signs(loss.fisher_factor_inner_shape, loss.dtype, seed)
        return tf.nest.flatten(loss.multiply_fisher_factor(signs))


def _exact(ggn: bool) -> Callable[..., list[Signal]]:
    """Back-propagates the columns of B one by one: Σ_k B e_k e_kᵀ Bᵀ = B Bᵀ."""

    def make(losses: RegisteredLosses, step: Scalar) -> list[Signal]:
        del step
        signals = []
        for name, entry in losses.loss_table.entries.items():
            indices = list(np.ndindex(_columns_shape(ggn, name, entry)))
            starts = _starts(entry)
            for first in range(0, len(indices), COLUMNS):
                some = indices[first : first + COLUMNS]
                columns = [_columns(ggn, loss, some) for loss in entry.towers]
                signals += [_signal(entry, starts, of_k) for of_k in zip(*columns, strict=True)]
        return signals

    return make


def _columns(ggn: bool, loss: LossFunction, indices: Sequence[Sequence[int]]) -> list[list[Tensor]]:
    """Returns B e_k for several k, each by input of the loss."""
    with v1.device(loss.device):
        multiply = (
            loss.multiply_ggn_factor_one_hots if ggn else loss.multiply_fisher_factor_one_hots
        )
        return [tf.nest.flatten(column) for column in multiply(indices)]


def _columns_shape(ggn: bool, name: str, entry: LossEntry) -> tuple[int, ...]:
    """Returns the shape of one example's inner vectors, which must be the same in all towers.

    Raises:
      ValueError: The shape is not static, or differs.
    """
    if ggn:
        by_tower = [loss.ggn_factor_inner_static_shape for loss in entry.towers]
    else:
        by_tower = [loss.fisher_factor_inner_static_shape for loss in entry.towers]
    known = [static for static in by_tower if static.rank is not None]
    shapes = {tuple(static.as_list()[1:]) for static in known}
    if len(known) < len(by_tower) or len(shapes) > 1 or any(None in shape for shape in shapes):
        raise ValueError(
            f"Cannot estimate exact curvature of loss {name!r}: its inputs have shapes "
            f"{[str(static) for static in by_tower]}, by tower. All axes but the first must be "
            "static, and the same in all towers: there is one back-propagation per coordinate. "
            "Set the static shape, or use estimation_mode='curvature_prop'."
        )
    return shapes.pop()


def _starts(entry: LossEntry) -> list[Tensor]:
    """Returns the inputs of a loss in all towers, to differentiate.

    In a conditional branch, tensors to differentiate must be made in that branch.
    """
    starts = []
    for loss in entry.towers:
        with v1.device(loss.device):
            starts += [tf.identity(tensor) for tensor in tf.nest.flatten(loss.inputs)]
    return starts


def _signal(entry: LossEntry, starts: list[Tensor], products: Sequence[Sequence[Tensor]]) -> Signal:
    """Returns the signal that starts at a loss's inputs, in all towers, with √c·products."""
    derivatives: list[Tensor] = []
    for loss, of_tower in zip(entry.towers, products, strict=True):
        with v1.device(loss.device):
            derivatives += [_times_root(entry.coeff, product) for product in of_tower]
    return Signal(starts, derivatives)


def _times_root(coeff: Scalar, product: Tensor) -> Tensor:
    """Returns √c·product; for a c that is known to be 1, without an operation."""
    if isinstance(coeff, int | float) and coeff == 1:
        return product
    return as_scalar(coeff**0.5, product.dtype) * product


def _joined(signals: Sequence[Signal]) -> Signal:
    starts = [tensor for signal in signals for tensor in signal.starts]
    return Signal(starts, [tensor for signal in signals for tensor in signal.derivatives or ()])


MODES: Mapping[str, EstimationMode] = types.MappingProxyType(
    {
        "gradients": EstimationMode(FISHER, "sample", "sqrt"),
        "empirical": EstimationMode(EMPIRICAL_FISHER, "data", "regular"),
        "curvature_prop": EstimationMode(FISHER, "sample", "sqrt", _curvature_propagation(False)),
        "curvature_prop_GGN": EstimationMode(GGN, "sample", "sqrt", _curvature_propagation(True)),
        "exact": EstimationMode(FISHER, "sample", "sqrt", _exact(False)),
        "exact_GGN": EstimationMode(GGN, "sample", "sqrt", _exact(True)),
    }
)


def mode_of(name: str) -> EstimationMode:
    """Returns the estimation mode of a name, a key of `MODES`.

    Raises:
      ValueError: It is none.
    """
    check_choice("estimation_mode", name, MODES)
    return MODES[name]
