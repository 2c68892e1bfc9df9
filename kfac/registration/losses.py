"""The half of a layer collection that has to do with losses: registration and evaluation.

Also owns what registration as a whole is tied to: the graph, and whether it is over. What a loss
means is in `kfac.loss_functions`. Extended by `kfac.layer_collection.LayerCollection`.
"""

import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from kfac._types import Graph, Operation, Scalar, Tensor
from kfac.loss_functions import (
    CategoricalLogitsNegativeLogProbLoss,
    LossFunction,
    MultiBernoulliNegativeLogProbLoss,
    NormalMeanNegativeLogProbLoss,
    NormalMeanVarianceNegativeLogProbLoss,
    OnehotCategoricalLogitsNegativeLogProbLoss,
)
from kfac.registration.loss_table import LossEntry, LossTable
from kfac.registration.reuse import VARIABLE_SCOPE

v1 = tf.compat.v1


class LossRegistration:
    """The losses of one model, over all its towers.

    All methods that register a loss have these arguments, in this order, after the parameters of
    the predicted distribution:

      seed: Seeds the sampling of targets; None derives it from the name, and in losses that are
        evaluated by hand from the seed of the graph.
      targets: What was observed; needed by estimation_mode="empirical" and `total_loss` only.
      name: Needed with several towers, because it tells which losses belong together.
      coeff: Weight of this loss among several, > 0.
      reuse: As for layers: True adds a tower to a registered loss, False registers a new one,
        AUTO_REUSE does what fits, VARIABLE_SCOPE goes by the flag of the current variable scope.
      weights: One number per example, or a mask, that multiplies its loss; None means 1. Averages
        still divide by the number of all examples.

    Two losses have a second name: `register_softmax_cross_entropy_loss` is the categorical one,
    `register_sigmoid_cross_entropy_loss` that of Bernoullis.

    They all raise:

      ValueError: A tower is added without a name, with another coefficient or with another kind of
        loss; the coefficient is not positive; a tensor is of another graph; registration is over.
      KeyError: `reuse` does not fit: the name is unknown, or taken.

    Attributes:
      graph: The graph that the model belongs to.
      name: Used in messages only.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        """Starts without losses.

        Args:
          graph: The graph of the model; None means the current default graph.
          name: Used in messages only.
        """
        self.graph = v1.get_default_graph() if graph is None else graph
        self.name = name
        self._losses = LossTable()
        self._is_final = False
        registrations_of_graph(self.graph).append(self)

    @property
    def is_final(self) -> bool:
        """Whether registration is over."""
        return self._is_final

    @property
    def losses_by_name(self) -> Mapping[str, LossEntry]:
        """Coefficient, seed and towers of each loss, in order of registration."""
        return self._losses.entries

    @property
    def losses(self) -> tuple[LossFunction, ...]:
        """All losses, tower after tower within each name."""
        return tuple(tower for loss in self._losses.entries.values() for tower in loss.towers)

    @property
    def towers_by_loss(self) -> tuple[tuple[LossFunction, ...], ...]:
        """For each loss name the losses of the towers."""
        return tuple(loss.towers for loss in self._losses.entries.values())

    @property
    def loss_coeffs(self) -> Mapping[LossFunction, float]:
        """The coefficient of each loss in `losses`."""
        return types.MappingProxyType(
            {
                tower: entry.coeff
                for entry in self._losses.entries.values()
                for tower in entry.towers
            }
        )

    @property
    def loss_colocation_ops(self) -> Mapping[LossFunction, Operation]:
        """The op that computes the inputs of each loss in `losses`, and says where it is."""
        return types.MappingProxyType(
            {loss: tf.nest.flatten(loss.inputs)[0].op for loss in self.losses}
        )

    # Registration.

    def register_categorical_predictive_distribution(
        self,
        logits: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
        weights: Tensor | None = None,
    ) -> None:
        """Registers a softmax cross-entropy loss, or one more tower of it.

        Logits are [batch, classes], or have more axes in front of the last. Targets are class
        numbers, shaped as the logits without their last axis.
        """
        kind = CategoricalLogitsNegativeLogProbLoss
        self._register(kind, (logits,), targets, weights, seed, name, coeff, reuse)

    register_softmax_cross_entropy_loss = register_categorical_predictive_distribution

    def register_onehot_categorical_predictive_distribution(
        self,
        logits: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
        weights: Tensor | None = None,
    ) -> None:
        """Registers a softmax cross-entropy loss whose targets are vectors, or a tower of it.

        Logits are [batch, classes], or have more axes in front of the last. Targets are one-hot
        vectors or probabilities, shaped as the logits.
        """
        kind = OnehotCategoricalLogitsNegativeLogProbLoss
        self._register(kind, (logits,), targets, weights, seed, name, coeff, reuse)

    def register_normal_predictive_distribution(
        self,
        mean: Tensor,
        var: float = 0.5,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
        weights: Tensor | None = None,
    ) -> None:
        """Registers |targets − mean|²/(2·var), plus a constant, or one more tower of it.

        The mean is [batch, ...], the targets are shaped as it; weights may be, too.

        Raises:
          TypeError: The variance is not a Python number.
          ValueError: The variance is not positive, or as for all losses.
        """
        kind = NormalMeanNegativeLogProbLoss
        self._register(kind, (mean, var), targets, weights, seed, name, coeff, reuse)

    def register_squared_error_loss(
        self,
        prediction: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
        weights: Tensor | None = None,
    ) -> None:
        """Registers |targets − prediction|², plus a constant: a variance of one half.

        See `register_normal_predictive_distribution`.
        """
        self.register_normal_predictive_distribution(
            prediction, 0.5, seed, targets, name, coeff, reuse, weights
        )

    def register_normal_mean_variance_predictive_distribution(
        self,
        mean: Tensor,
        variance: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
        weights: Tensor | None = None,
    ) -> None:
        """Registers the negative log-likelihood of a normal distribution, both parts predicted.

        Mean, variance > 0 and targets are [batch, n]; weights may be, too.
        """
        kind = NormalMeanVarianceNegativeLogProbLoss
        self._register(kind, (mean, variance), targets, weights, seed, name, coeff, reuse)

    def register_multi_bernoulli_predictive_distribution(
        self,
        logits: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
        weights: Tensor | None = None,
    ) -> None:
        """Registers a sigmoid cross-entropy loss, or one more tower of it.

        Logits are [batch, ...]. Targets are in [0, 1] and shaped as the logits; weights may be so
        shaped, too.
        """
        kind = MultiBernoulliNegativeLogProbLoss
        self._register(kind, (logits,), targets, weights, seed, name, coeff, reuse)

    register_sigmoid_cross_entropy_loss = register_multi_bernoulli_predictive_distribution

    def _register(
        self,
        kind: Callable[..., LossFunction],
        parameters: tuple[Any, ...],
        targets: Tensor | None,
        weights: Tensor | None,
        seed: int | None,
        name: str | None,
        coeff: float,
        reuse: bool | str,
    ) -> None:
        """Adds a loss of some kind, after all checks have passed."""
        self._check_open(f"loss {name!r}")
        resolved = self._losses.resolve_name(name, coeff, reuse)
        loss = kind(*parameters, targets, seed, name=resolved, weights=weights)
        self._check_graph(f"loss {name!r}", *tf.nest.flatten(loss.inputs))
        self._losses.add(loss, coeff, seed)

    # Evaluation.

    def eval_losses(
        self,
        target_mode: str = "data",
        coeff_mode: str = "regular",
        sample_step: Scalar | None = None,
    ) -> list[Tensor]:
        """Evaluates the losses of all towers, each on its tower's device.

        Args:
          target_mode: "data" for registered targets, "sample" for drawn ones.
          coeff_mode: Multiply by the coefficient ("regular"), by its root ("sqrt") or not ("off").
            "sqrt" takes the root of the weights of examples too.
          sample_step: With "sample": equal steps give equal samples, int64 []. None draws anew in
            each run of a session; these draws repeat in another session if the loss or the graph
            has a seed.

        Returns:
          One Tensor [] per loss and tower: a sum over examples.

        Raises:
          ValueError: A mode is unknown, or targets are missing.
        """
        return self._losses.evaluate(target_mode, coeff_mode, sample_step)

    def total_loss(self, coeff_mode: str = "regular") -> Tensor:
        """Returns the sum of all losses on the registered targets; see `eval_losses`."""
        return tf.add_n(self.eval_losses("data", coeff_mode))

    def total_sampled_loss(
        self, coeff_mode: str = "regular", sample_step: Scalar | None = None
    ) -> Tensor:
        """Returns the sum of all losses on targets drawn from the model; see `eval_losses`.

        The targets are drawn anew in each run of a session, unless there is a `sample_step`.
        """
        return tf.add_n(self.eval_losses("sample", coeff_mode, sample_step))

    # Checks.

    def _check_open(self, what: str) -> None:
        if self._is_final:
            raise ValueError(
                f"Cannot register {what}: {self.name} is finalized, because an optimizer or "
                "estimator has built curvature from it. Register everything, in all towers, before "
                "apply_gradients, minimize or make_vars_and_create_op_thunks is called. In a "
                "replicated model_fn wrap the optimizer, replicate.TowerOptimizer(make_optimizer), "
                "which calls apply_gradients in the last tower; ask for factors, statistics and "
                "update ops in the last tower only."
            )

    def _check_graph(self, what: str, *tensors: Tensor) -> None:
        if any(tensor.graph is not self.graph for tensor in tensors):
            raise ValueError(
                f"Cannot register {what}: its tensors are in another graph than {self.name}. "
                "Make one collection per graph, or use kfac.graph_layer_collection()."
            )


def registrations_of_graph(graph: Graph) -> list[LossRegistration]:
    """Returns all collections of a graph: the list that hangs on it."""
    registrations: list[LossRegistration] = graph.get_collection_ref((LossRegistration,))
    return registrations
