"""Training operation and summaries of a head."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable
from replicate.canned.heads.metric_objects import scope_name
from replicate.spec import LOSS_METRIC_KEY
from replicate.tower.build import current_tower

v1 = tf.compat.v1


def make_train_op(
    loss: Tensor,
    optimizer: Any,
    trainable_variables: Sequence[Variable] | None,
    train_op_fn: Callable[[Tensor], Operation] | None,
    update_ops: Sequence[Operation] | None,
    where: str,
) -> Operation:
    """Makes the operation of one training step, by exactly one of optimizer and train_op_fn.

    The arguments are those of `Head.create_estimator_spec`. The update operations in the collection
    UPDATE_OPS run in every step, too.

    Returns:
      What the optimizer or the function returned, grouped with update operations if there are any.

    Raises:
      ValueError: Both or neither of optimizer and train_op_fn are given, or an argument is of the
        wrong type.
    """
    _check_sequence("update_ops", update_ops, where)
    if (optimizer is None) == (train_op_fn is None):
        given = "neither" if optimizer is None else "both"
        raise ValueError(
            f"Cannot train {where}: exactly one of optimizer and train_op_fn must be given, got "
            f"{given}. Pass optimizer=tf.compat.v1.train.AdamOptimizer(...), for example."
        )
    # With a slash at the end, this scope and the variables in it always have the same names.
    with v1.name_scope("training/"):
        if train_op_fn is not None:
            train_op = train_op_fn(loss)
        else:
            _check_optimizer(optimizer, where)
            _check_sequence("trainable_variables", trainable_variables, where)
            train_op = optimizer.minimize(
                loss, global_step=v1.train.get_global_step(), **_var_list(trainable_variables)
            )
        updates = _updates(update_ops or ())
        return v1.group(train_op, *updates) if updates else train_op


def _var_list(trainable: Sequence[Variable] | None) -> dict[str, list[Variable]]:
    """Returns the argument var_list, unless it names all trainable variables of the graph.

    The `minimize` of an older program's optimizer may not take it.
    """
    every = {variable.ref() for variable in v1.trainable_variables()}
    if trainable is None or {variable.ref() for variable in trainable} == every:
        return {}
    return {"var_list": list(trainable)}


def _updates(given: Sequence[Operation]) -> list[Operation]:
    """Returns the given update operations and those in UPDATE_OPS, each once.

    In a tower the given ones join UPDATE_OPS, where `replicate_model_fn` looks for the updates that
    it merges over the towers.
    """
    collected = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    new = [each for each in given if not any(each is known for known in collected)]
    if current_tower() is not None:
        v1.get_collection_ref(v1.GraphKeys.UPDATE_OPS).extend(new)
    return list({id(each): each for each in [*new, *collected]}.values())


def write_summaries(scalars: dict[str, Tensor]) -> None:
    """Adds scalars to the summaries of the graph, under these names whatever the scopes around.

    Characters that TensorFlow does not accept in names are replaced by "_". Of several towers, each
    knows its own rows only: "loss" is then left to the Estimator, which writes the loss of the
    whole batch, and the other summaries are those of the first tower.
    """
    tower = current_tower()
    with v1.name_scope(None):
        for name, value in scalars.items():
            if name != LOSS_METRIC_KEY or tower is None or tower.count == 1:
                v1.summary.scalar(scope_name(name), value)


def _check_sequence(argument: str, value: Any, where: str) -> None:
    if not (value is None or isinstance(value, list | tuple)):
        raise ValueError(
            f"Cannot train {where}: {argument} must be a list or tuple, got {value!r}. Put it into "
            "a list."
        )


def _check_optimizer(optimizer: Any, where: str) -> None:
    if not isinstance(optimizer, v1.train.Optimizer):
        raise ValueError(
            f"Cannot train {where}: optimizer must be a tf.compat.v1.train.Optimizer, got "
            f"{optimizer!r}. Make one of tf.compat.v1.train, or pass train_op_fn, a function from "
            "the loss to the training operation."
        )
