"""The graph that a model is registered from, and the state of its registration.

The layer table and the loss table of a layer collection share one scope, and ask it before they
keep anything.
"""

from typing import final

import tensorflow as tf

from kfac._types import Graph, Tensor

v1 = tf.compat.v1


@final
class RegistrationScope:
    """The graph and the state of one registration.

    Attributes:
      graph: The graph that the model belongs to.
      name: Name of the layer collection, for messages.
    """

    def __init__(self, graph: Graph = None, name: str = "LayerCollection") -> None:
        """Opens registration.

        Args:
          graph: The graph of the model; None means the current default graph.
          name: Name of the layer collection, for messages.
        """
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
        """Checks that registration is not over.

        Args:
          what: Name of the thing to be registered, for the message.

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
        """Checks that tensors belong to the graph.

        Args:
          what: Name of the thing to be registered, for the message.
          *tensors: Tensors of the thing.

        Raises:
          ValueError: A tensor is of another graph.
        """
        if any(tensor.graph is not self.graph for tensor in tensors):
            raise ValueError(
                f"Cannot register {what}: its tensors are in another graph than {self.name}. "
                "Make one collection per graph, or use kfac.graph_layer_collection()."
            )
