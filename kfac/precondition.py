"""K-FAC before any optimizer: it gets the gradients times the inverse Fisher matrix.

    gradients → fold, refresh, M⁻¹g → grafting, if asked for → the optimizer's own step

Called by users, and by `kfac.keras.step` for optimizers of Keras.
"""

from typing import Any

import tensorflow as tf

from kfac._types import GradsAndVars, Scalar, Variable
from kfac.arguments import check_names, names_of
from kfac.layer_collection import LayerCollection, graph_layer_collection
from kfac.optimizer import OF_SUBCLASSES, KfacOptimizer
from kfac.periodic import PeriodicInvCovUpdateKfacOpt
from kfac.settings import KfacSettings
from kfac.tracebacks import methods_show_user_frames, shows_user_frames
from kfac.update.given_optimizer import GivenOptimizer
from kfac.update.grafting import ADAM, AdamGraft, Graft, OptimizerGraft

v1 = tf.compat.v1

_OF_THE_OPTIMIZER = frozenset(
    {
        "decays",
        "learning_rate",
        "momentum",
        "momentum_type",
        "norm_constraint",
        "qmodel_update_rescale",
        "use_weight_decay",
        "weight_decay_coeff",
    }
)
"""Settings of the step, which the given optimizer makes."""

_OF_ADAPTATION = frozenset(
    {
        "adapt_damping",
        "calibrate_damping",
        "damping_adaptation_decay",
        "damping_adaptation_interval",
        "damping_decrease_rho_threshold",
        "damping_increase_rho_threshold",
        "include_damping_in_qmodel_change",
        "is_chief",
        "l2_reg",
        "loss",
        "loss_fn",
        "max_damping",
        "min_damping",
        "prev_train_batch",
        "print_logs",
        "rejection_rho_threshold",
        "train_batch",
        "update_damping_immediately",
        "use_passed_loss",
    }
)
"""Settings of a damping that adapts, for which the change by a step must be known before it."""


@shows_user_frames
def precondition(
    optimizer: Any,
    layer_collection: LayerCollection | None = None,
    *,
    damping: Scalar,
    graft: Any = None,
    invert_every: Scalar = KfacSettings.invert_every,
    cov_update_every: int = KfacSettings.cov_update_every,
    name: str = "Precondition",
    **settings: Any,
) -> "Preconditioned":
    """Returns an optimizer that hands gradients times the inverse Fisher matrix to another one.

    In each step averages and inverses are updated when they are due, then the gradients of all
    registered variables are multiplied by M⁻¹, and `optimizer` makes its step of the products, with
    its own learning rate, momentum and state. Variables of no registered layer take part with their
    gradients as they are. A step that is not finite changes nothing, nor does a run of the burn-in.

    With `graft` the product of each layer is scaled to the length of the step that another
    optimizer would make of the plain gradients, with learning rate 1. So with gradient descent as
    `optimizer` a layer moves as far as by Adam of the same learning rate, in K-FAC's direction:
    Agarwal et al. (2020), arXiv:2002.11803. Variables of no registered layer then get that
    optimizer's step in place of their gradients.

    Args:
      optimizer: A `tf.compat.v1.train.Optimizer`, such as Momentum, or a function without arguments
        that makes one, called now.
      layer_collection: Layers and losses; None means `graph_layer_collection()`.
      damping: λ > 0.
      graft: "adam", or an optimizer with learning rate 1, or a function that makes one, which
        keeps a copy of the weights. None means that products keep their lengths.
      invert_every: Steps between two computations of the inverses, ≥ 1.
      cov_update_every: Steps between two updates of the averages, ≥ 1.
      name: Name scope of ops.
      **settings: Further arguments of `PeriodicInvCovUpdateKfacOpt`, but for those of its step and
        of a damping that adapts.

    Raises:
      ValueError: A number is out of its range, or two arguments exclude each other.
      TypeError: An argument is unknown, or no such optimizer.
    """
    check_settings("kfac.precondition", settings, names_of(precondition))
    given = _made("optimizer", optimizer)
    layers = graph_layer_collection() if layer_collection is None else layer_collection
    return Preconditioned(
        GivenOptimizer(given.apply_gradients, _graft(graft)),
        given,
        layer_collection=layers,
        damping=damping,
        invert_every=invert_every,
        cov_update_every=cov_update_every,
        name=name,
        **settings,
    )


def check_settings(owner: str, settings: Any, own: Any = ()) -> None:
    """Checks the names of further arguments.

    Args:
      owner: Name of what the user called.
      settings: The arguments, by name.
      own: Names of arguments that it has beside those of K-FAC's optimizers.

    Raises:
      TypeError: One is unknown, or does not go with another optimizer's step.
    """
    for name in settings:
        if name in _OF_THE_OPTIMIZER:
            raise TypeError(
                f"{owner} has no argument {name}: the optimizer that is given makes the step. Pass "
                "learning rate, momentum and weight decay to it."
            )
        if name in _OF_ADAPTATION:
            raise TypeError(
                f"{owner} has no argument {name}: K-FAC does not know the steps of another "
                "optimizer before they are made, and adapts no damping by them. Pass damping, a "
                "number or a function that returns a Tensor."
            )
    accepted = names_of(PeriodicInvCovUpdateKfacOpt, KfacOptimizer) - OF_SUBCLASSES
    check_names(owner, settings, (accepted | {*own}) - _OF_THE_OPTIMIZER - _OF_ADAPTATION)


def _made(argument: str, given: Any) -> Any:
    """Returns an optimizer for graphs, or what a function makes.

    Raises:
      TypeError: It is none.
    """
    made = given() if callable(given) and not isinstance(given, v1.train.Optimizer) else given
    if isinstance(made, KfacOptimizer) or not isinstance(made, v1.train.Optimizer):
        raise TypeError(
            f"kfac.precondition was given {argument}={given!r}. Accepted are a "
            "tf.compat.v1.train.Optimizer other than K-FAC's, such as "
            "tf.compat.v1.train.AdamOptimizer(1e-3), and a function that makes one. For an "
            "optimizer of Keras there is kfac.keras.Kfac(optimizer=...)."
        )
    return made


def _graft(given: Any) -> Graft | None:
    if given is None:
        return None
    if isinstance(given, str):
        return named_graft(given)
    return OptimizerGraft(_made("graft", given))


def named_graft(name: str | None) -> Graft | None:
    """Returns the optimizer of a name that lengths are taken from, or None.

    Raises:
      ValueError: There is no such name.
    """
    if name not in (None, ADAM):
        raise ValueError(
            f"Cannot set up K-FAC: graft={name!r}. Accepted are None, {ADAM!r}, and in graph mode "
            "an optimizer with learning rate 1."
        )
    return None if name is None else AdamGraft()


@methods_show_user_frames
class Preconditioned(PeriodicInvCovUpdateKfacOpt):
    """K-FAC's optimizer whose step another optimizer makes; see `kfac.precondition`."""

    def __init__(self, given: GivenOptimizer, optimizer: Any, **settings: Any) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          given: Makes the step.
          optimizer: The optimizer with the state of the step: `get_slot` and `variables` ask it.
            None if it is not for graphs.
          **settings: Arguments of `PeriodicInvCovUpdateKfacOpt`.

        Raises:
          ValueError: A number is out of its range, or two arguments exclude each other.
        """
        super().__init__(
            learning_rate=1.0, momentum=None, momentum_type="regular", given=given, **settings
        )
        self._given = optimizer
        self._graft = given.graft

    def check_gradients(self, grads_and_vars: GradsAndVars) -> list[tuple[Any, Variable]]:
        """Checks that all registered variables have gradients.

        Returns:
          The pairs that have a gradient, also those of variables that are not registered.

        Raises:
          ValueError: A registered variable has none; the message names it.
          TypeError: A variable is partitioned.
        """
        pairs = list(grads_and_vars)
        super().check_gradients(self._registered(pairs))
        return [pair for pair in pairs if pair[0] is not None]

    def multiply_preconditioner(self, vecs_and_vars: GradsAndVars) -> GradsAndVars:
        """Multiplies the parts of registered variables by M⁻¹; the others stay as they are."""
        pairs = list(vecs_and_vars)
        products = super().multiply_preconditioner(self._registered(pairs))
        by_variable = {variable.ref(): product for product, variable in products}
        return [(by_variable.get(variable.ref(), part), variable) for part, variable in pairs]

    def _registered(self, pairs: GradsAndVars) -> GradsAndVars:
        registered = {variable.ref() for variable in self.layers.registered_variables}
        return [
            pair for pair in pairs if not hasattr(pair[1], "ref") or pair[1].ref() in registered
        ]

    def variables(self) -> list[Variable]:
        """Returns all state: K-FAC's, and that of the optimizers that it calls."""
        graft = self._graft.variables if self._graft else []
        return [*super().variables(), *(self._given.variables() if self._given else []), *graft]

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Returns a slot of the given optimizer."""
        return self._given.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Returns the names of the given optimizer's slots."""
        return list(self._given.get_slot_names())
