"""SyncReplicasHook: runs a SyncReplicasOptimizer, and ends it without hanging processes.

In synchronous training the workers send their gradients to the parameter servers and wait for a
token each. A thread of the chief applies the gradients and gives out the tokens. TensorFlow's hook
has three faults: it leaves that thread waiting in a step when the session closes, closes the queue
of tokens even if the session is only lost, and lets a worker wait for ever for a token that another
worker took. The hook of this module runs TensorFlow's hook and mends these faults. The training
loop wraps the hooks of its caller in it; programs with sessions of their own use it themselves.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Graph, Operation, Tensor
from replicate.estimator.cluster.server_session import ServerSession
from replicate.estimator.log import log

v1 = tf.compat.v1

_QUEUE = b"sync_token_q"
"""Name under which the processes of a cluster share the queue of tokens."""

_END_SECS = 5


class SyncReplicasHook(v1.train.SessionRunHook):
    """Runs a SyncReplicasOptimizer in a monitored session; no process waits when it ends.

    ```
    sync = v1.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=2)
    train_op = sync.minimize(loss, global_step)
    hook = replicate.SyncReplicasHook(sync, is_chief)
    with v1.train.MonitoredTrainingSession(server.target, is_chief, hooks=[hook]) as session:
    ```

    Use it in place of the optimizer's `make_session_run_hook`. An `Estimator` accepts both.
    """

    ends_before_save = True
    """No process waits while an Estimator saves."""

    def __init__(
        self,
        optimizer: Any,
        is_chief: bool,
        num_tokens: int = -1,
        comes_back: Callable[[], bool] | None = None,
    ):
        """Stores the arguments; uses the optimizer only when the session is made.

        Args:
          optimizer: A `v1.train.SyncReplicasOptimizer` that applies gradients, a function without
            arguments that returns one, or the hook that its `make_session_run_hook` made.
          is_chief: True if this process applies the gradients.
          num_tokens: Tokens that the chief gives out at the start, -1 for one per gradient of a
            step. Without effect if `optimizer` is a hook.
          comes_back: Called at the end; True if this process only pauses, and the others should
            wait for it. None stands for False. If a chief ends for good, all others end.
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
        """Begins the optimizer's hook, and adds the operations of `end` to the graph.

        Raises:
          TypeError: The optimizer is not a SyncReplicasOptimizer.
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
        """Runs the initialisers of TensorFlow's hook, and starts the chief's thread."""
        if self._is_chief and session.run(self._is_closed):
            session.run(self._destroy)  # The next use of the queue makes a new one.
        self._session = session
        self._aggregation = _Aggregation(session, coord)
        self._hook.after_create_session(_OpenQueueSession(session), self._aggregation)

    def before_run(self, run_context: Any) -> None:
        """Does nothing. A hook with this method makes the session check the chief's thread."""

    def end(self, session: v1.Session) -> None:
        """Releases all processes that wait; a chief that does not come back ends them."""
        self._session = session
        if self._aggregation is not None:
            self._aggregation.has_ended = True
        self.release()
        if self._is_chief and not (self.comes_back and self.comes_back()):
            self._run(self._close)

    def release(self) -> None:
        """Gives a token to every process that waits for one, this process included. Thread-safe."""
        if self._session is not None:
            self._run(self._spare)

    def _run(self, operation: Operation) -> None:
        """Runs an operation; ignores servers that are lost."""
        options = v1.RunOptions(timeout_in_ms=1000 * _END_SECS)
        with contextlib.suppress(tf.errors.OpError, RuntimeError):
            self._session.run(operation, options=options)

    def _made(self) -> Any:
        """Returns TensorFlow's hook."""
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
        """Adds the operations of `end` to the graph.

        Args:
          grant: Operation with which the chief gives out the tokens of a step. The number of
            tokens is static; their values wait for the step and must not be read.
        """
        handle, tokens = grant.inputs[:2]
        queue = tf.queue.QueueBase([tokens.dtype], [[]], None, handle)
        step = tf.cast(v1.train.get_global_step().read_value(), tokens.dtype)
        self._spare = queue.enqueue_many(tf.fill(tokens.shape.as_list(), step))
        with v1.device(handle.device):
            self._close, self._is_closed = queue.close(), queue.is_closed()
            self._destroy = tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)


class _Aggregation(v1.train.Coordinator):
    """Coordinator of the chief's thread, in place of the session's coordinator.

    A session's coordinator waits for its threads, but this thread hangs in a step until the session
    closes.

    Attributes:
      has_ended: True after training has ended. The thread may then find its queue closed.
    """

    def __init__(self, session: v1.Session, coord: v1.train.Coordinator):
        super().__init__()
        self._session = session
        self._coord = coord
        self.has_ended = False

    def should_stop(self) -> bool:
        return bool(self._coord.should_stop())

    def request_stop(self, ex: Any = None) -> None:
        """Passes on an error and closes the session, unless training has ended."""
        if not self.has_ended and not self._coord.should_stop():
            self._coord.request_stop(ex)
            if isinstance(self._session, ServerSession) and isinstance(ex, Exception):
                self._session.fail(ex)
            else:
                self._session.close()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        return bool(self._coord.wait_for_stop(timeout))


class _OpenQueueSession:
    """A session that skips the close of a queue, since the queue outlives the session."""

    def __init__(self, session: v1.Session):
        self._session = session

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(fetches, "type", "").startswith("QueueClose"):
            return None
        return self._session.run(fetches, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def with_orderly_ends(
    hooks: Sequence[Any], is_chief: bool, comes_back: Callable[[], bool], number: int = 0
) -> list[Any]:
    """Returns the hooks; each hook of a SyncReplicasOptimizer is wrapped in a SyncReplicasHook.

    `number` is the index of this process among those that train, the chief first.
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
            "A SyncReplicasOptimizer applies gradients in this graph, but its hook is missing, so "
            "that no process runs it: pass "
            "training_hooks=[sync.make_session_run_hook(config.is_chief)] to the EstimatorSpec."
        )
    if any(isinstance(hook, SyncReplicasHook) for hook in orderly):
        _warn_of_few_tokens(v1.get_default_graph(), number)
    return orderly


def _warn_of_few_tokens(graph: Graph, number: int) -> None:
    """Warns if this process sends gradients and is not counted in the tokens of a step.

    Processes that send none, such as dedicated workers of K-FAC, come last and have no hook.
    """
    counts = [grant.inputs[1].shape[0] for grant in _grants(graph)]
    if counts and number >= min(counts):
        log.warning(
            "This process is number %d of those that train, and SyncReplicasOptimizer gives out "
            "only %d tokens per step. If a process is killed that holds a token, others wait for "
            "its restart. Count all processes that send gradients: "
            "SyncReplicasOptimizer(total_num_replicas=config.num_worker_replicas).",
            number + 1,
            min(counts),
        )


def is_synchronous(graph: Graph) -> bool:
    """Returns True if a SyncReplicasOptimizer applies gradients in a graph."""
    return bool(_grants(graph))


def _grants(graph: Graph) -> list[Operation]:
    """Returns the operations with which the chief gives out tokens after a step."""
    return [
        operation
        for operation in graph.get_operations()
        if operation.type.startswith("QueueEnqueueMany")
        and operation.inputs[0].op.node_def.attr["shared_name"].s == _QUEUE
    ]


def _is_of_tensorflow(hook: Any) -> bool:
    """Returns True if a SyncReplicasOptimizer has made a hook."""
    return type(hook).__module__ == v1.train.SyncReplicasOptimizer.__module__


def _may_run_replicas(hook: Any) -> bool:
    """Returns True if a hook runs a SyncReplicasOptimizer, or could: its class is unknown."""
    is_known = type(hook).__module__.partition(".")[0] in ("replicate", "tensorflow")
    return isinstance(hook, SyncReplicasHook) or not is_known
