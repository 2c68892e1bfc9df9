"""deploy: builds the clones of a model, one operation that trains them, and one for summaries.

The function follows a training step: clones, their losses and gradients, the optimizer, and then
summaries. `create_clones` and `optimize_clones` do the first two for callers that write their own
training step.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from model_deploy._types import Gradient, Operation, Tensor, Variable
from model_deploy.clones import Clone, create_clones
from model_deploy.config import DeploymentConfig
from model_deploy.gradients import gradient_values
from model_deploy.optimize import (
    add_losses,
    check_optimizer,
    clone_losses,
    of_clone,
    optimize_clones,
)
from model_deploy.tracebacks import shows_user_frames

v1 = tf.compat.v1


class DeployedModel(NamedTuple):
    """A model on all of its clones.

    Attributes:
      train_op: Scalar. Makes one training step and returns the total loss before the update; None
        without an optimizer or if no variable has a gradient.
      summary_op: Merged summaries of the first clone and of the deployed model; None if there are
        none.
      total_loss: Scalar: mean of the clones' losses plus regularization; None if there is none.
      clones: The clones, in order.
    """

    train_op: Tensor | None
    summary_op: Tensor | None
    total_loss: Tensor | None
    clones: list[Clone]


@shows_user_frames
def deploy(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    optimizer: v1.train.Optimizer | None = None,
    summarize_gradients: bool = False,
    regularization_losses: Sequence[Tensor] | None = None,
    **optimize_kwargs: Any,
) -> DeployedModel:
    """Builds the clones of a model and, given an optimizer, the operation that trains them.

    A step also runs the first clone's UPDATE_OPS, such as moving averages of batch normalization,
    and increments the global step. It makes a global step if there is none.

    Args:
      config: Number of clones, and their devices.
      model_fn: Builds the model, as for `create_clones`.
      args: Positional arguments of `model_fn`.
      kwargs: Keyword arguments of `model_fn`.
      optimizer: Applies the gradients. None builds the model for evaluation.
      summarize_gradients: True adds, for each variable, histograms of its gradient and of the
        gradient's norm.
      regularization_losses: As for `optimize_clones`.
      **optimize_kwargs: Further arguments of the optimizer's `compute_gradients`.

    Raises:
      ValueError: A clone makes different variables than the first; there is an optimizer but no
        clone has a loss; or there are `optimize_kwargs` but no optimizer.
      TypeError: An argument is of another type.
    """
    _check_optimizer(optimizer, summarize_gradients, optimize_kwargs)
    summaries = v1.get_collection(v1.GraphKeys.SUMMARIES)
    clones = create_clones(config, model_fn, args, kwargs)
    update_ops = of_clone(v1.GraphKeys.UPDATE_OPS, clones[0])
    train_op = None
    with v1.device(config.optimizer_device()):
        if optimizer is None:
            losses = [loss for _, loss in clone_losses(clones, regularization_losses)]
            total_loss = add_losses(losses) if losses else None
        else:
            with v1.device(config.variables_device()):
                global_step = v1.train.get_or_create_global_step()
            total_loss, gradients = optimize_clones(
                clones, optimizer, regularization_losses, **optimize_kwargs
            )
            if summarize_gradients:
                summaries += _summarize_gradients(gradients)
            if gradients:
                update = optimizer.apply_gradients(gradients, global_step=global_step)
                train_op = _train_op(total_loss, [*update_ops, update])
        summaries += of_clone(v1.GraphKeys.SUMMARIES, clones[0])
        if total_loss is not None:
            summaries.append(_summarize_loss(total_loss))
        return DeployedModel(train_op, _merged(summaries), total_loss, clones)


def _check_optimizer(
    optimizer: v1.train.Optimizer | None,
    summarize_gradients: bool,
    optimize_kwargs: Mapping[str, Any],
) -> None:
    unused = sorted(optimize_kwargs) + ["summarize_gradients"] * summarize_gradients
    if optimizer is None and unused:
        raise ValueError(
            f"Cannot deploy: {', '.join(unused)} given, but no optimizer that would use it. Pass "
            f"an optimizer to train, or omit the argument to evaluate."
        )
    if optimizer is not None:
        check_optimizer("deploy", optimizer)


def _train_op(total_loss: Tensor, updates: Iterable[Operation | Tensor]) -> Tensor:
    with v1.control_dependencies([v1.group(*updates)]):
        return tf.identity(total_loss, name="train_op")


def _summarize_gradients(gradients: Iterable[tuple[Gradient, Variable]]) -> list[Tensor]:
    summaries = []
    for gradient, variable in gradients:
        values = gradient_values(gradient)
        name = f"{variable.op.name}_gradient"
        summaries.append(v1.summary.histogram(name, values))
        summaries.append(v1.summary.histogram(f"{name}_norm", tf.linalg.global_norm([values])))
    return summaries


def _summarize_loss(total_loss: Tensor) -> Tensor:
    """Summarizes the loss under the name of its op; `summary.scalar` would add a number to it."""
    name = total_loss.op.name
    summary = tf.raw_ops.ScalarSummary(tags=name, values=total_loss, name=f"{name}_summary")
    v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)
    return summary


def _merged(summaries: Iterable[Tensor]) -> Tensor | None:
    """Merges summaries, without duplicates, into `summary_op/summary_op`."""
    distinct = list({summary.name: summary for summary in summaries}.values())
    return v1.summary.merge(distinct, name="summary_op") if distinct else None
