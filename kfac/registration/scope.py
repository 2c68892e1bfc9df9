"""The graph that a model is registered from, and the state of its registration.

The layer table and the loss table of a layer collection share one scope, and ask it before they
keep anything. They also ask here if a registration makes a new layer or loss, or adds a tower to a
registered one.
"""

from typing import final

import tensorflow as tf

from kfac._types import Graph, Tensor

v1 = tf.compat.v1

VARIABLE_SCOPE = "VARIABLE_SCOPE"
"""Value of `reuse` that takes the flag of the current variable scope."""


@final
class RegistrationScope:
    """The graph and the state of one registration.

    `name` is that of the layer collection, for messages. No graph means the current default graph.
    """

    def __init__(self, graph: Graph = None, name: str = "LayerCollection") -> None:
        self.graph = v1.get_default_graph() if graph is None else graph
        self.name = name
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """True when registration is over."""
        return self._is_closed

    def close(self) -> None:
        """Ends registration."""
        self._is_closed = True

    def check_open(self, what: str) -> None:
        """Checks that registration is not over; the message says that `what` comes too late.

        Raises:
          ValueError: Registration is over.
        """
        if self._is_closed:
            raise ValueError(
                f"Cannot register {what}: {self.name} is finalized, because an optimizer or "
                "estimator has built curvature from it. Register everything, in all towers, before "
                "apply_gradients, minimize or make_vars_and_create_op_thunks is called. In a "
                "replicated model_fn wrap the optimizer, replicate.TowerOptimizer(make_optimizer), "
                "which calls apply_gradients in the last tower; ask for factors, statistics and "
                "update ops in the last tower only."
            )

    def check_graph(self, what: str, *tensors: Tensor) -> None:
        """Checks that the tensors of `what`, a thing to be registered, belong to the graph.

        Raises:
          ValueError: A tensor is of another graph.
        """
        if any(tensor.graph is not self.graph for tensor in tensors):
            raise ValueError(
                f"Cannot register {what}: its tensors are in another graph than {self.name}. "
                "Make one collection per graph, or use kfac.graph_layer_collection()."
            )


def is_reuse(reuse: bool | str | None, exists: bool) -> bool:
    """Resolves a `reuse` argument: returns True to add a tower, False to register something new.

    AUTO_REUSE adds a tower if there is something to add to. VARIABLE_SCOPE takes the flag of the
    current variable scope. None means False.

    Raises:
      ValueError: `reuse` is anything else.
    """
    flag = v1.get_variable_scope().reuse if reuse == VARIABLE_SCOPE else reuse
    if flag is None:
        return False
    if flag is v1.AUTO_REUSE:
        return exists
    if not isinstance(flag, bool):
        raise ValueError(
            f"Cannot register for K-FAC: reuse={reuse!r}. Accepted are True, False, "
            "tf.compat.v1.AUTO_REUSE and kfac.layer_collection.VARIABLE_SCOPE."
        )
    return flag
