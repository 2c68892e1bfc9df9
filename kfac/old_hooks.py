"""Refusal of subclasses of optimizers, blocks and factors with overrides that are never called.

The optimizers of tensorflow/kfac called private methods of their own in each step, and those of
`tf.compat.v1.train.Optimizer`. Programs that override such a method rely on it. The step of this
package has other parts: it would never call the override, and training would go on without a word.
Called by the constructor of the optimizer. An estimator also never calls the methods of blocks and
factors for a single matrix function, so definitions of such classes call this module, too.
"""

import types
from collections.abc import Iterable, Mapping

_CURVATURE = "multiply_preconditioner, which every step calls, and momentum_type"
_DAMPING = "the constructor's arguments adapt_damping, loss_fn and those named damping_…"
_NORM = "the constructor's argument norm_constraint"
_DECAY = "the constructor's arguments use_weight_decay and weight_decay_coeff"
_APPLY = "apply_gradients, and do the rest before or after super().apply_gradients(…)"
_BACKGROUND = "run_cov_inv_ops, or kfac.OpQueue with the ops of make_ops_and_vars()"
_PERIODS = (
    "the constructor's arguments invert_every and cov_update_every, or kfac.KfacOptimizer and the "
    "ops of make_ops_and_vars()"
)

OLD_HOOKS: Mapping[str, str] = types.MappingProxyType(
    {
        **dict.fromkeys(
            (
                "_compute_prev_updates",
                "_compute_qmodel",
                "_compute_qmodel_hyperparams",
                "_compute_raw_update_steps",
                "_compute_update_steps",
                "_get_qmodel_quantities",
                "_update_velocities",
            ),
            _CURVATURE,
        ),
        **dict.fromkeys(
            (
                "_assign_q_model_change",
                "_compute_approx_qmodel_change",
                "_get_current_loss",
                "_get_prev_loss",
                "_is_damping_adaptation_time",
                "_is_just_after_damping_adaptation_time",
                "_maybe_post_update_adapt_damping",
                "_maybe_update_prev_loss",
                "_maybe_update_qmodel_change",
                "_sub_damping_out_qmodel_change_coeff",
                "_update_damping",
                "maybe_pre_update_adapt_damping",
            ),
            _DAMPING,
        ),
        **dict.fromkeys(("_clip_updates", "_squared_fisher_norm", "_update_clip_coeff"), _NORM),
        **dict.fromkeys(("_make_ops", "_run_ops", "_set_up_op_name_queue"), _BACKGROUND),
        **dict.fromkeys(
            (
                "_apply_dense",
                "_apply_sparse",
                "_apply_sparse_duplicate_indices",
                "_create_slots",
                "_finish",
                "_prepare",
                "_resource_apply_dense",
                "_resource_apply_sparse",
                "_resource_apply_sparse_duplicate_indices",
            ),
            _APPLY,
        ),
        "_add_weight_decay": _DECAY,
        "_maybe_print_logging_info": "the constructor's argument print_logs",
        "_scale_loss": "compute_gradients, and scale the loss that it is given",
        "kfac_update_ops": _PERIODS,
    }
)
"""Method that tensorflow/kfac called → what to override or use instead."""


def check_overrides(cls: type, own: type) -> None:
    """Checks that a subclass overrides no hook that is never called.

    Args:
      cls: The class of the optimizer that is made.
      own: `KfacOptimizer`. Definitions in it and in the classes of this package are no overrides.

    Raises:
      TypeError: It overrides one; the message names the methods and their replacements.
    """
    users = [c for c in cls.__mro__ if issubclass(c, own) or c not in own.__mro__]
    users = [c for c in users if c.__module__.partition(".")[0] != __name__.partition(".")[0]]
    found = {name: c for c in users for name in OLD_HOOKS if name in vars(c)}
    if found:
        methods = "; ".join(
            f"{c.__name__}.{name} (use {OLD_HOOKS[name]})" for name, c in sorted(found.items())
        )
        raise TypeError(
            f"Cannot make the optimizer {cls.__name__}: it overrides methods that tensorflow/kfac "
            f"called in its steps, and K-FAC's step here never calls: {methods}. Accepted are "
            "overrides of compute_gradients, apply_gradients, minimize and "
            "multiply_preconditioner. See docs/howto/from_tensorflow_kfac.md."
        )


def refuse_single_functions(cls: type, names: Iterable[str], instead: str) -> None:
    """Checks that a class of blocks or factors overrides no method for a single matrix function.

    Args:
      cls: The class to check.
      names: Methods that each call a general method.
      instead: Names of the general methods.

    Raises:
      TypeError: It overrides one; the message names the methods and the general ones.
    """
    found = [name for name in names if name in vars(cls)]
    if found:
        raise TypeError(
            f"Cannot define the class {cls.__name__}: it overrides {', '.join(found)}, which "
            f"tensorflow/kfac called, and estimators here never call. Override {instead}, which "
            "they call with each function, such as kfac.fisher_factors.Power(-1). "
            "See docs/howto/kfac_registration.md."
        )
