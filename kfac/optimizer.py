"""The K-FAC optimizer: preconditioned gradients with momentum, and damping that may adapt.

The user of a `KfacOptimizer` says when the curvature is updated. The optimizers of `kfac.periodic`,
`kfac.async_updates` and `kfac.cluster` update it by themselves.

References:
  Martens & Grosse (2015), arXiv:1503.05671.
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §5.
"""

# The optimizer makes settings of its arguments, parts of the settings, each once, and forwards
# calls: curvature is the estimator's, the step `kfac.update.step`'s, momentum and damping are its
# rules'. A policy of `kfac.update.refresh` says when the step updates the curvature.

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, GradsAndVars, Graph, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_excluded, check_names, names_of
from kfac.computed_settings import called_once
from kfac.curvature.backward_pass import faster_gradients
from kfac.curvature.by_hand import CurvatureOps, Thunk, Thunks
from kfac.curvature.estimation_modes import mode_of
from kfac.damping.adaptation import AdaptedDamping, make_damping_rule
from kfac.damping.interface import NAN, ModelChange
from kfac.damping.training_loss import TrainingLoss
from kfac.estimator import FisherEstimator
from kfac.fisher_factors.base import FisherFactor
from kfac.linalg import tensor_ops
from kfac.linalg.damped_functions import INVERSE
from kfac.registration.registered_model import RegisteredModel
from kfac.settings import KfacSettings, documents_settings
from kfac.state import enclosing_graphs, initial_zeros, make_variable
from kfac.tracebacks import methods_show_user_frames
from kfac.update.given_optimizer import GivenOptimizer
from kfac.update.momentum import MOMENTUM_TYPES, ExactCurvature, make_momentum
from kfac.update.refresh import BY_CALLER, RefreshPolicy
from kfac.update.step import KfacStep, MakeStep
from kfac.variables import CapturedVariable, check_not_partitioned, name_of

v1 = tf.compat.v1

__all__ = ["MOMENTUM_TYPES", "KfacOptimizer"]

OF_SUBCLASSES = frozenset({"given", "refresh"})
"""Arguments of `KfacOptimizer` that only classes derived from it give."""


@methods_show_user_frames
class KfacOptimizer(v1.train.GradientDescentOptimizer):
    """Gradient descent preconditioned by a Kronecker-factored Fisher matrix.

    The loss must be a mean over the batch. With gradient g, damped inverse M⁻¹, momentum β,
    velocity v and learning rate α the weights change, by momentum type, by

    * "regular": −αv, v ← βv + M⁻¹g;
    * "adam": −αM⁻¹v, v ← βv + g;
    * "qmodel": αM⁻¹g + μu, u being the change before; α and μ minimize the quadratic model of the
      loss with the exact curvature of the batch, so that neither is to be given;
    * "qmodel_fixedmu": the same, but μ is given as `momentum`.

    Until the inverse of a layer's block was computed at least once, that block counts as made of
    identity matrices, damped like its factors: the layer is trained by its gradient, scaled.

    A step with a non-finite entry changes neither weights nor velocities; it is counted in
    `skipped_steps`. All numbers may also be Tensors, Variables or functions without arguments
    that return a number or Tensor; such a function is called once, while the graph is built.
    """

    @documents_settings
    def __init__(  # noqa: D417
        self,
        learning_rate: Scalar | None,
        damping: Scalar,
        layer_collection: RegisteredModel,
        cov_ema_decay: Scalar = KfacSettings.cov_ema_decay,
        var_list: Sequence[Variable] | None = None,
        momentum: Scalar | None = KfacSettings.momentum,
        momentum_type: str = KfacSettings.momentum_type,
        use_weight_decay: bool = KfacSettings.use_weight_decay,
        weight_decay_coeff: Scalar = KfacSettings.weight_decay_coeff,
        qmodel_update_rescale: Scalar | None = KfacSettings.qmodel_update_rescale,
        norm_constraint: Scalar | None = KfacSettings.norm_constraint,
        name: str = KfacSettings.name,
        estimation_mode: str = KfacSettings.estimation_mode,
        colocate_gradients_with_ops: bool = KfacSettings.colocate_gradients_with_ops,
        batch_size: Scalar | None = KfacSettings.batch_size,
        placement_strategy: str | None = KfacSettings.placement_strategy,
        compute_params_stats: bool = KfacSettings.compute_params_stats,
        adapt_damping: bool = KfacSettings.adapt_damping,
        update_damping_immediately: bool = KfacSettings.update_damping_immediately,
        is_chief: bool = KfacSettings.is_chief,
        prev_train_batch: Any = None,
        loss: Tensor | None = None,
        loss_fn: Callable[[Any], Tensor] | None = None,
        min_damping: float = KfacSettings.min_damping,
        l2_reg: float = KfacSettings.l2_reg,
        damping_adaptation_decay: float = KfacSettings.damping_adaptation_decay,
        damping_adaptation_interval: int = KfacSettings.damping_adaptation_interval,
        damping_decrease_rho_threshold: float = KfacSettings.damping_decrease_rho_threshold,
        damping_increase_rho_threshold: float = KfacSettings.damping_increase_rho_threshold,
        precon_damping_mult: Scalar = KfacSettings.precon_damping_mult,
        use_passed_loss: bool = KfacSettings.use_passed_loss,
        train_batch: Any = None,
        print_logs: bool = KfacSettings.print_logs,
        tf_replicator: None = None,
        dtype: DType = KfacSettings.dtype,
        *,
        cov_devices: Sequence[str] | None = KfacSettings.cov_devices,
        inv_devices: Sequence[str] | None = KfacSettings.inv_devices,
        trans_devices: Sequence[str] | None = KfacSettings.trans_devices,
        max_damping: float | None = KfacSettings.max_damping,
        calibrate_damping: bool = KfacSettings.calibrate_damping,
        rejection_rho_threshold: float | None = KfacSettings.rejection_rho_threshold,
        include_damping_in_qmodel_change: bool = KfacSettings.include_damping_in_qmodel_change,
        decays: Callable[[Variable], bool] | None = KfacSettings.decays,
        refresh: RefreshPolicy = BY_CALLER,
        given: GivenOptimizer | None = None,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Numbers and choices are settings, described in `kfac.settings.KfacSettings`.

        Args:
          layer_collection: A `LayerCollection`. Towers may register until `apply_gradients`.
          cov_ema_decay: Weight of the past in the moving averages per update, in [0, 1].
          var_list: Variables to train; None means all that is registered.
          prev_train_batch: The batch of the step before, as `loss_fn` takes it.
          loss: The loss; None means that which `compute_gradients` is given.
          loss_fn: Returns the mean loss, shape [], of a batch, with the weights as they then are.
            Must build its forward pass anew, and make no variables. None, with no `train_batch`:
            the loss after a step is computed from the graph, see `kfac.damping.recomputed_loss`.
          train_batch: The batch of this step, as `loss_fn` takes it; see `add_tower_batch`.
          tf_replicator: Must be None: copies of the graph under a replicator are not supported.
          refresh: Times of the updates of averages and inverses, given by subclasses; here the user
            updates them.
          given: Another optimizer that makes the step, given by subclasses; None makes K-FAC's.

        Raises:
          ValueError: A number is out of its range, a choice is unknown, or arguments do not go
            with each other.
          TypeError: A subclass overrides a method that tensorflow/kfac called, and that is never
            called here.
        """
        settings = KfacSettings.of(locals())
        check_excluded(
            "tf_replicator", tf_replicator, "graph mode", "build one tower per device instead"
        )
        super().__init__(1.0, name=name)
        self._var_list = var_list
        self._graph: Graph = None
        self._interval = damping_adaptation_interval
        self._refresh = refresh
        self._losses = TrainingLoss(
            loss, loss_fn, train_batch, prev_train_batch, use_passed_loss, layer_collection
        )
        mat_type = mode_of(estimation_mode).mat_type
        self._momentum_rule = make_momentum(
            settings,
            ExactCurvature(layer_collection, mat_type, batch_size, colocate_gradients_with_ops),
        )
        every_step = self._momentum_rule.knows_model_change
        self._change = ModelChange(dtype) if adapt_damping or every_step else None
        rule = self._damping_rule = make_damping_rule(settings, self._losses, self._change)
        self._precon_damping_mult = called_once(precon_damping_mult)
        self._estimator = FisherEstimator(
            placement_strategy=placement_strategy,
            variables=var_list,
            cov_ema_decay=called_once(refresh.decay_per_update(cov_ema_decay)),
            damping=self._preconditioner_damping,
            layer_collection=layer_collection,
            estimation_mode=estimation_mode,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=f"{name}/fisher",
            compute_params_stats=compute_params_stats,
            batch_size=batch_size,
            cov_devices=cov_devices,
            inv_devices=inv_devices,
            trans_devices=trans_devices,
        )
        self._step = KfacStep(
            name=name,
            estimator=self._estimator,
            policy=refresh,
            multiply_inverse=self._multiply_preconditioner
            if type(self)._multiply_preconditioner is not KfacOptimizer._multiply_preconditioner
            else self.multiply_preconditioner,
            momentum=self._momentum_rule,
            make_velocities=self._make_velocities,
            damping=rule,
            judge=rule if isinstance(rule, AdaptedDamping) else None,
            change=self._change,
            losses=self._losses,
            model_damping=None if include_damping_in_qmodel_change else l2_reg,
            decays=_always if decays is None else decays,
            given=given,
        )
        self._make_step: MakeStep = self._step.make  # Subclasses add what they do beside a step.

    def __str__(self) -> str:
        """Returns the sentence that Keras's error shows when a model is compiled with it."""
        return (
            f"a {type(self).__name__}, which runs in graph mode and cannot be given to a Keras "
            "model's compile: give that a kfac.keras.Kfac, or call minimize in a model_fn of an "
            "Estimator, with the layers registered in its layer_collection."
        )

    def _check_names(self, given: Iterable[str]) -> None:
        """Checks the names of the arguments that the constructor of a subclass passes on.

        Raises:
          TypeError: An argument is unknown.
        """
        classes = [each for each in type(self).__mro__ if issubclass(each, KfacOptimizer)]
        check_names(type(self).__name__, given, names_of(*classes) - {"refresh"})

    def minimize(
        self,
        loss: Tensor,
        global_step: Variable | None = None,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = True,
        name: str | None = None,
        grad_loss: Tensor | None = None,
    ) -> Operation:
        """Computes gradients and applies them; see `compute_gradients` and `apply_gradients`."""
        return super().minimize(
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

    def compute_gradients(
        self,
        loss: Tensor,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = True,
        grad_loss: Tensor | None = None,
    ) -> list[tuple[Tensor | None, Variable]]:
        """Computes gradients like any optimizer; leaves the layer collection open.

        Args:
          loss: The mean over the batch, shape []. Of a tower, its part of a sum over towers; under
            `replicate.TowerOptimizer`, the mean over its shard.
          var_list: Variables to train; None means the constructor's choice, else all trainable.
          gate_gradients: As in `tf.compat.v1.train.Optimizer`, but GATE_OP is not heeded: as a step
            waits until all of it is known to be finite, it waits for all gradients that it needs.
          aggregation_method: As in `tf.compat.v1.train.Optimizer`.
          colocate_gradients_with_ops: True to compute gradients where the forward pass was,
            whatever the constructor was given for statistics.
          grad_loss: As in `tf.compat.v1.train.Optimizer`.

        Raises:
          ValueError: No graph is being built.
          TypeError: A variable is partitioned.
        """
        _check_not_eager(self, "compute_gradients")
        if gate_gradients == v1.train.Optimizer.GATE_OP:
            gate_gradients = v1.train.Optimizer.GATE_NONE
        wanted = self._var_list if var_list is None else var_list
        check_not_partitioned("compute gradients", tf.nest.flatten(wanted or []))
        gradients: list[tuple[Tensor | None, Variable]] = super().compute_gradients(
            loss,
            var_list=wanted,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        self._losses.collect(loss)
        return faster_gradients(gradients)

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Makes one step; subclasses also update the curvature, `KfacOptimizer` does not.

        Args:
          grads_and_vars: (gradient, variable) for every registered variable. Others may be among
            them only if their gradient is None.
          global_step: Incremented by one after the step; `ClusterKfacOpt` requires it.
          name: Name of the returned op.

        Raises:
          ValueError: A registered variable has no gradient, a variable with a gradient is not
            registered, the collection is not complete, a tower has another collection, the damping
            cannot be adapted, `ClusterKfacOpt` was given no global step, no graph is being built,
            or a step was built in another branch of a condition, or trace of a function.
          TypeError: A variable is partitioned.
        """
        _check_not_eager(self, "apply_gradients")
        self._check_one_graph()
        pairs = self.check_gradients(grads_and_vars)
        return self._make_step(pairs, global_step, name)

    def _check_one_graph(self) -> None:
        """Checks that no step was built in a graph whose Tensors the current one cannot read."""
        graph = v1.get_default_graph()
        self._graph = self._graph or graph
        if self._graph not in enclosing_graphs(graph):
            raise ValueError(
                f"{type(self).__name__}.apply_gradients was called in two graphs, the second of "
                "which cannot use what was built in the first: two branches of tf.cond, or two "
                "traces of a tf.function. Build the step once, in one branch or in none, and let a "
                "session run it. In a tf.function train with kfac.keras.Kfac."
            )

    def multiply_preconditioner(self, vecs_and_vars: GradsAndVars) -> GradsAndVars:
        """Multiplies a vector by M⁻¹, with the inverses as they are; every step calls it.

        A subclass may override it, to correct the products or to have other ones. It may call
        `super().multiply_preconditioner`, also with other vectors, such as `params_stats`. Steps
        multiply gradients by it, and with "adam" velocities.

        Args:
          vecs_and_vars: (part of the vector, variable) for all registered variables, each part
            shaped as its variable. Gradients of embeddings may be IndexedSlices.

        Returns:
          (product, variable) for the same variables, in the same order.
        """
        return self._estimator.multiply_function(
            INVERSE, list(vecs_and_vars), from_identity=self._refresh.from_identity
        )

    def _multiply_preconditioner(self, vecs_and_vars: GradsAndVars) -> GradsAndVars:
        """The same by its name in tensorflow/kfac, which a subclass may override instead."""
        return self.multiply_preconditioner(vecs_and_vars)

    def _preconditioner_damping(self) -> Scalar:
        """Returns the damping of M now, a multiple of λ: a number if both are, else float64 []."""
        factor, damping = tensor_ops.known_or_scalars(
            [self._precon_damping_mult, self._step.inverse_damping()], tf.float64
        )
        return factor * damping

    def maybe_pre_update_adapt_damping(self) -> Operation:
        """Returns the op that calibrates the damping, or adapts it by the step before.

        It is made once. Every step waits for it. Updates of inverses that are built after it use
        the damping from before an adaptation, as in tensorflow/kfac, but with the calibration. It
        must wait for the averages if damping is calibrated.
        """
        return self._step.prepare_damping()

    def check_gradients(self, grads_and_vars: GradsAndVars) -> list[tuple[Any, Variable]]:
        """Checks that gradients and registered variables match; `apply_gradients` does it, too.

        Returns:
          The pairs that have a gradient.

        Raises:
          ValueError: They do not match; the message names the variables.
          TypeError: A variable is partitioned.
        """
        layers, pairs = self.layers, [pair for pair in grads_and_vars if pair[0] is not None]
        check_not_partitioned("apply gradients", [variable for _, variable in pairs])
        present = {variable.ref() for _, variable in pairs}
        registered = {variable.ref() for variable in layers.registered_variables}
        uncovered = [name_of(v) for _, v in pairs if v.ref() not in registered]
        if uncovered:
            raise ValueError(
                f"K-FAC cannot train {', '.join(uncovered)}: no layer registered in "
                f"{layers.name} covers them. Register their layers with "
                "register_fully_connected or register_conv2d (a bias goes with its weight, as "
                "(weight, bias)), or train them with another optimizer and leave them out of "
                "var_list."
            )
        unreached = [name_of(v) for v in layers.registered_variables if v.ref() not in present]
        if unreached:
            raise ValueError(
                f"K-FAC has no gradient for {', '.join(unreached)}, which are registered in "
                f"{layers.name}. Pass the gradients of all registered variables; see "
                "that the loss depends on them, or do not register their layers."
            )
        return pairs

    def variables(self) -> list[Variable]:
        """Returns all state: velocities, averages, inverses, counters. Empty before it is made."""
        state = self._step.variables
        return [*super().variables(), *state] if state else []

    def _make_velocities(self, variables: Sequence[Variable]) -> list[Variable]:
        """Returns the velocities of variables; makes them at first use."""
        if any(isinstance(variable, CapturedVariable) for variable in variables):
            # A function is traced several times, and scopes would number the slots of each trace.
            with tf.init_scope():
                return [
                    make_variable(f"{name_of(v)}/velocity", v.shape, v.dtype.base_dtype)
                    for v in variables
                ]
        with tf.init_scope():
            return [
                self._get_or_make_slot_with_initializer(
                    v, initial_zeros, v.shape, v.dtype.base_dtype, "velocity", self._name
                )
                for v in variables
            ]

    @property
    def learning_rate(self) -> Scalar:
        """α as it was given; with the "qmodel" types that of the last step."""
        return self._momentum_rule.learning_rate

    @property
    def momentum(self) -> Scalar:
        """β as it was given; with the "qmodel" types that of the last step."""
        return self._momentum_rule.momentum

    @property
    def damping(self) -> Scalar:
        """λ as it was given; with `adapt_damping` the variable that keeps it."""
        return self._damping_rule.damping

    @property
    def damping_adaptation_interval(self) -> int:
        """Steps from one adaptation of the damping to the next."""
        return self._interval

    @property
    def rho(self) -> Scalar:
        """ρ, the ratio of the changes of loss and model, at the last adaptation; NaN before it."""
        return self._damping_rule.rho

    @property
    def qmodel_change(self) -> Scalar:
        """The change that the quadratic model foretold; NaN before the first such step.

        With the "qmodel" types of the last step, with others, if the damping adapts, of the last
        step that was judged by it.
        """
        return NAN if self._change is None else self._change.variable

    @property
    def counter(self) -> Variable:
        """Number of steps that were made, skipped or taken back, int64 []; made at first use."""
        return self._step.counter("counter")

    @property
    def skipped_steps(self) -> Variable:
        """Number of skipped steps, which were not finite, int64 []; made at first use."""
        return self._step.counter("skipped_steps")

    @property
    def rejected_steps(self) -> Variable:
        """Number of steps that were taken back, int64 []; made at first use."""
        return self._step.counter("rejected_steps")

    @property
    def layers(self) -> RegisteredModel:
        """The layer collection."""
        return self._estimator.layers

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """The parameters that are registered."""
        return self.layers.registered_variables

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The Kronecker factors; ends registration at first use."""
        return self._estimator.factors

    @property
    def mat_type(self) -> str:
        """The estimated matrix, "Fisher", "Empirical_Fisher" or "GGN"."""
        return self._estimator.mat_type

    @property
    def params_stats(self) -> tuple[Tensor, ...]:
        """First-order statistics, by registered variable; see `FisherEstimator.params_stats`.

        Raises:
          ValueError: The optimizer was made without compute_params_stats=True.
        """
        return self._estimator.params_stats

    def get_cov_vars(self) -> tuple[list[Tensor], ...]:
        """Returns the moving averages of each factor; see `FisherEstimator.get_cov_vars`."""
        return self._estimator.get_cov_vars()

    def get_inv_vars(self) -> tuple[list[Variable], ...]:
        """Returns the variables of the inverses of each factor; see `FisherEstimator`."""
        return self._estimator.get_inv_vars()

    def make_vars_and_create_op_thunks(
        self, scope: str | None = None
    ) -> tuple[list[Thunk], list[Thunk]]:
        """Makes all variables, and functions that make ops in a name scope; see `FisherEstimator`.

        Returns:
          (cov updates, inv updates). Run the latter after the former, and both before the step.
        """
        return self._estimator.make_vars_and_create_op_thunks(scope)

    def create_ops_and_vars_thunks(self, scope: str | None = None) -> Thunks:
        """Returns functions that make variables and ops in a name scope; see `FisherEstimator`."""
        return self._estimator.create_ops_and_vars_thunks(scope)

    def make_ops_and_vars(self, scope: str | None = None) -> CurvatureOps:
        """Makes all variables and ops at once, in a name scope; see `FisherEstimator`."""
        return self._estimator.make_ops_and_vars(scope)

    def check_var_list(self, var_list: Sequence[Variable]) -> None:
        """Checks that exactly these variables are registered.

        Raises:
          ValueError: Some of them are not, or some others are; the message names them.
        """
        self.layers.check_registration(var_list)

    def set_loss(self, loss: Tensor) -> None:
        """Sets the mean loss over the batch of all towers, shape [], which adapts the damping.

        Needed only where the losses that `compute_gradients` is given do not add up to it.
        """
        self._losses.set(loss)

    def add_tower_batch(self, train_batch: Any = None, prev_train_batch: Any = None) -> None:
        """Adds a tower's share of the batch, to be called once in each tower.

        The loss after a step is then the mean of `loss_fn` over the towers' batches. Each is
        computed on the tower's device, in its variable scope with reuse.

        Args:
          train_batch: As the constructor's, but of this tower.
          prev_train_batch: As the constructor's, but of this tower.
        """
        self._losses.add_tower(train_batch, prev_train_batch)


def _always(variable: Variable) -> bool:
    del variable
    return True


def _check_not_eager(optimizer: KfacOptimizer, method: str) -> None:
    if tf.executing_eagerly():
        raise ValueError(
            f"{type(optimizer).__name__}.{method} was called where TensorFlow executes eagerly, "
            "but it runs in graph mode only: call it in a model_fn of an Estimator, or inside of "
            "`with tf.Graph().as_default():`."
        )
