"""The loss of the current batch once more, with the weights as they are after a step.

Those ops between the trained variables and the loss are copied that depend on the values of the
variables. Everything else is shared: the batch, what was drawn for dropout, and shapes. So the
copy differs from the loss in the weights only, and no input is read twice. Called by
`kfac.damping.training_loss` where the program gave no function for this loss.
"""

from collections.abc import Iterable, Sequence

import tensorflow as tf

from kfac._types import Graph, Operation, Tensor, Variable
from kfac.variables import handles_of

v1 = tf.compat.v1

SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size", "VariableShape"})
"""Ops whose result does not depend on the values of their inputs."""
LOOPS = frozenset({"Enter", "Exit", "NextIteration", "RefEnter", "RefExit", "RefNextIteration"})
"""Ops of loops of control flow v1, which are bound to one frame by name."""
REPEATABLE = frozenset(
    {
        "Assert",
        "If",
        "PartitionedCall",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "StatefulPartitionedCall",
        "While",
    }
)
"""Ops that TensorFlow counts as stateful, and whose copies compute what they compute."""
_AFTER = "kfac_after_step"


def recomputed(losses: Sequence[Tensor], variables: Iterable[Variable]) -> list[Tensor]:
    """Returns losses with the variables as they are after the active control dependencies.

    The losses are of one graph and any shape. The variables are those that a step changes. Inside a
    branch, the branch must wait for the step.

    Raises:
      ValueError: A loop of control flow v1, or an op that draws numbers or keeps a state, is
        between variables and loss, so a copy would not compute the same.
    """
    roots = {handle.op for variable in variables for handle in handles_of(variable)}
    copied = _dependent_on(roots, losses)
    _check(copied)
    if not copied:
        return list(losses)
    definition, inputs = _definition(copied, roots, losses[0].graph)
    names = {operation.name for operation in copied}
    wanted = [loss.name for loss in losses if loss.op.name in names]
    copies = tf.graph_util.import_graph_def(definition, inputs, wanted, name="loss_after_step")
    by_name = dict(zip(wanted, copies, strict=True))
    return [by_name.get(loss.name, loss) for loss in losses]


def _dependent_on(roots: set[Operation], losses: Sequence[Tensor]) -> list[Operation]:
    """Returns the ops between roots and losses, without the roots, whose values may change."""
    consumers: dict[Operation, list[Operation]] = {}
    waiting, seen = [loss.op for loss in losses], {loss.op for loss in losses}
    while waiting:
        operation = waiting.pop()
        if operation in roots or operation.type in SHAPES:
            continue
        for source in _sources(operation):
            consumers.setdefault(source, []).append(operation)
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    found: dict[Operation, None] = {}
    waiting = [consumer for root in roots for consumer in consumers.get(root, [])]
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found[operation] = None
            waiting += consumers.get(operation, [])
    return list(found)


def _sources(operation: Operation) -> list[Operation]:
    return [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]


def _check(operations: Iterable[Operation]) -> None:
    for operation in operations:
        if operation.type in LOOPS:
            reason = "belongs to a loop of control flow v1"
        elif operation.op_def.is_stateful and operation.type not in REPEATABLE:
            reason = "draws numbers or keeps a state"
        else:
            continue
        raise ValueError(
            f"Cannot compute the loss after a step from the graph: {operation.name} "
            f"({operation.type}), between variables and loss, {reason}. Pass a function of the "
            "batch as loss_fn, and the batch as train_batch, to the K-FAC optimizer."
        )


def _definition(
    operations: Sequence[Operation], roots: set[Operation], graph: Graph
) -> tuple[v1.GraphDef, dict[str, Tensor]]:
    """Returns the ops as a graph of its own, and the tensors for its inputs by their name there.

    Copies do not keep what they are colocated with: they may be in another graph than that.
    """
    names = {operation.name for operation in operations}
    definition = v1.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    inputs = {f"^{_AFTER}": tf.constant(0, name=_AFTER)}
    for operation in operations:
        node = definition.node.add()
        node.CopyFrom(operation.node_def)
        node.attr.pop("_class", None)
        for tensor in operation.inputs:
            if tensor.op.name not in names and tensor.name not in inputs:
                with v1.device(tensor.device):
                    inputs[tensor.name] = tf.identity(tensor)
        for source in operation.control_inputs:
            if source.name not in names:
                inputs[f"^{source.name}"] = _end_of(source)
        if not roots.isdisjoint(_sources(operation)):
            node.input.append(f"^{_AFTER}")
    return definition, inputs


def _end_of(operation: Operation) -> Tensor:
    """Returns a tensor of the active graph that is known once the operation has run."""
    if operation.outputs:
        return tf.identity(operation.outputs[0])
    with v1.control_dependencies([operation]):
        return tf.constant(0)
