"""Synchronous replicas that end: what SyncReplicasOptimizer's own hook does, and an orderly end.

In synchronous training the workers hand their gradients to the parameter servers and wait for a
token each; a thread of the chief applies the gradients and gives out the tokens. TensorFlow's hook
leaves that thread waiting in a step when the session closes, closes the queue of tokens even if the
session is only lost, and lets a worker wait for ever for a token that another one took. The hook
made here runs TensorFlow's, and keeps these three things in order. The training loop puts it around
the hooks that it is given; programs with sessions of their own use it themselves.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Graph, Operation, Tensor
from replicate.estimator.log import log

v1 = tf.compat.v1

_QUEUE = b"sync_token_q"
"""The name by which the processes of a cluster share the queue of tokens."""

_END_SECS = 5


class SyncReplicasHook(v1.train.SessionRunHook):
    """Runs a SyncReplicasOptimizer in a monitored session, and ends it without anybody waiting.

    ```
    sync = v1.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=2)
    train_op = sync.minimize(loss, global_step)
    hook = replicate.SyncReplicasHook(sync, is_chief)
    with v1.train.MonitoredTrainingSession(server.target, is_chief, hooks=[hook]) as session:
    ```

    It takes the place of the optimizer's `make_session_run_hook`. An `Estimator` takes both.
    """

    def __init__(
        self,
        optimizer: Any,
        is_chief: bool,
        num_tokens: int = -1,
        comes_back: Callable[[], bool] | None = None,
    ):
        """Takes whose hook this is; asks nothing of it before the session is made.

        Args:
          optimizer: A `v1.train.SyncReplicasOptimizer` that applies gradients, a function without
            arguments that returns one, or the hook that its `make_session_run_hook` made.
          is_chief: Whether this process applies the gradients.
          num_tokens: Tokens that the chief gives out at the start, -1 for one per gradient of a
            step. Without effect if `optimizer` is a hook.
          comes_back: Asked at the end: whether this process only pauses, so that the others shall
            wait for it. None stands for no. When a chief has ended, all others end.
        """
        self.comes_back = comes_back
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens
        self._hook: Any = None
        self._spare: Operation = None
        self._close: Operation = None
        self._session: v1.Session = None
        self._aggregation: _Aggregation | None = None
        self._is_closed: Tensor = None
        self._destroy: Operation = None

    def begin(self) -> None:
        """Lets the optimizer's hook begin, and adds what the end needs to the graph.

        Raises:
          TypeError: The optimizer is none that needs this hook.
          ValueError: The graph holds no gradients that a SyncReplicasOptimizer applies.
        """
        self._hook = self._made()
        grants = _grants(v1.get_default_graph())
        if not grants:
            raise ValueError(
                "SyncReplicasHook: the graph has no synchronous update. Let the "
                "SyncReplicasOptimizer apply gradients in the graph of this session, with "
                "minimize or apply_gradients, before the session is made."
            )
        with v1.name_scope("sync_replicas_end"):
            self._add_end(grants[0])
        self._hook.begin()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Initialises what TensorFlow's hook does, and starts the chief's thread."""
        if self._is_chief and session.run(self._is_closed):
            session.run(self._destroy)  # the next use of the queue makes a new one
        self._session = session
        self._aggregation = _Aggregation(session, coord)
        self._hook.after_create_session(_OpenQueueSession(session), self._aggregation)

    def before_run(self, run_context: Any) -> None:
        """Does nothing. A hook that looks at steps has the session ask the chief's thread."""

    def end(self, session: v1.Session) -> None:
        """Gives everybody who waits a token; a chief that does not come back ends the others."""
        self._session = session
        if self._aggregation is not None:
            self._aggregation.has_ended = True
        self.release()
        if self._is_chief and not (self.comes_back and self.comes_back()):
            self._run(self._close)

    def release(self) -> None:
        """Gives everybody who waits for a token one, this process included; from any thread."""
        if self._session is not None:
            self._run(self._spare)

    def _run(self, operation: Operation) -> None:
        """Runs an operation, unless the servers are gone."""
        options = v1.RunOptions(timeout_in_ms=1000 * _END_SECS)
        with contextlib.suppress(tf.errors.OpError, RuntimeError):
            self._session.run(operation, options=options)

    def _made(self) -> Any:
        """TensorFlow's hook."""
        optimizer = self._optimizer
        if isinstance(optimizer, v1.train.SessionRunHook):
            return optimizer
        if not hasattr(optimizer, "make_session_run_hook") and callable(optimizer):
            optimizer = optimizer()
        if not hasattr(optimizer, "make_session_run_hook"):
            raise TypeError(
                f"SyncReplicasHook takes a tf.compat.v1.train.SyncReplicasOptimizer, a function "
                f"that returns one, or its hook; got {optimizer!r}. Pass the optimizer that "
                f"applies the gradients; inside TowerOptimizer it is `lambda: optimizer.wrapped`."
            )
        return optimizer.make_session_run_hook(self._is_chief, self._num_tokens)

    def _add_end(self, grant: Operation) -> None:
        """Adds what the end needs to the graph.

        Args:
          grant: The operation by which the chief gives out the tokens of a step. Their number is
            static; their values wait for the step and must not be read.
        """
        handle, tokens = grant.inputs[:2]
        queue = tf.queue.QueueBase([tokens.dtype], [[]], None, handle)
        step = tf.cast(v1.train.get_global_step().read_value(), tokens.dtype)
        self._spare = queue.enqueue_many(tf.fill(tokens.shape.as_list(), step))
        with v1.device(handle.device):
            self._close, self._is_closed = queue.close(), queue.is_closed()
            self._destroy = tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)


class _Aggregation(v1.train.Coordinator):
    """What the chief's thread reports to, in place of the session's coordinator.

    A coordinator waits for its threads, and this one hangs in a step until the session closes.
    """

    def __init__(self, session: v1.Session, coord: v1.train.Coordinator):
        super().__init__()
        self._session = session
        self._coord = coord
        self.has_ended = False
        """Whether training has: the chief's thread may then find its queue closed."""

    def should_stop(self) -> bool:
        return bool(self._coord.should_stop())

    def request_stop(self, ex: Any = None) -> None:
        """Hands on an error that is not due to the end, and wakes those who wait in the session."""
        if not self.has_ended and not self._coord.should_stop():
            self._coord.request_stop(ex)
            self._session.close()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        return bool(self._coord.wait_for_stop(timeout))


class _OpenQueueSession:
    """A session that closes no queue: TensorFlow would, although the queue outlives the session."""

    def __init__(self, session: v1.Session):
        self._session = session

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(fetches, "type", "").startswith("QueueClose"):
            return None
        return self._session.run(fetches, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def with_orderly_ends(
    hooks: Sequence[Any], is_chief: bool, comes_back: Callable[[], bool]
) -> list[Any]:
    """Returns the hooks, with a SyncReplicasHook around each of a SyncReplicasOptimizer.

    Args:
      hooks: Hooks of a training session of the default graph.
      is_chief: As for `SyncReplicasHook`.
      comes_back: Likewise.
    """
    orderly = []
    for hook in hooks:
        made = SyncReplicasHook(hook, is_chief) if _is_of_tensorflow(hook) else hook
        if isinstance(made, SyncReplicasHook):
            made.comes_back = comes_back
        orderly.append(made)
    may_be_run = any(map(_may_run_replicas, orderly))
    if is_synchronous(v1.get_default_graph()) and not may_be_run:
        log.warning(
            "A SyncReplicasOptimizer applies gradients in this graph, but its hook is missing and "
            "nobody will run it: pass training_hooks=[sync.make_session_run_hook(config.is_chief)] "
            "to the EstimatorSpec."
        )
    return orderly


def is_synchronous(graph: Graph) -> bool:
    """Returns whether a SyncReplicasOptimizer applies gradients in a graph."""
    return bool(_grants(graph))


def _grants(graph: Graph) -> list[Operation]:
    """The operations by which the chief gives out tokens after a step."""
    return [
        operation
        for operation in graph.get_operations()
        if operation.type.startswith("QueueEnqueueMany")
        and operation.inputs[0].op.node_def.attr["shared_name"].s == _QUEUE
    ]


def _is_of_tensorflow(hook: Any) -> bool:
    """Whether a hook is one that a SyncReplicasOptimizer has made."""
    return type(hook).__module__ == v1.train.SyncReplicasOptimizer.__module__


def _may_run_replicas(hook: Any) -> bool:
    """Whether a hook runs a SyncReplicasOptimizer, as far as one can know."""
    is_known = type(hook).__module__.partition(".")[0] in ("replicate", "tensorflow")
    return isinstance(hook, SyncReplicasHook) or not is_known
