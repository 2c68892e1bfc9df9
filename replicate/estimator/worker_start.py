"""Sessions of workers that train without parameter servers.

Owns the order in which such a worker starts: it meets the others, gets its variables from the chief
and starts its input where the chief's starts.
"""

from collections.abc import Callable
from typing import Any, final

import tensorflow as tf

from replicate._types import Graph
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.initial_values import InitialValues
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.checkpoints.worker_state import WorkerState
from replicate.estimator.cluster.meeting import Facts, Meeting
from replicate.estimator.cluster.server_session import ServerSession
from replicate.estimator.cluster.worker_group import lost_workers_named
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import require_ready
from replicate.estimator.session_options import session_options
from replicate.version import version

v1 = tf.compat.v1


@final
class WorkerStart:
    """The start of one worker, up to a session that is ready for the first step."""

    def __init__(
        self,
        group: WorkerGroup,
        meeting: Meeting,
        config: RunConfig,
        facts: Facts,
        position: InputPosition | None,
        watch_peers: Callable[[], None],
        state: WorkerState | None = None,
    ):
        """Stores the parts.

        Facts must be equal in all workers. `position` is None for an input that always starts at
        the beginning. `watch_peers` is called when all workers are there. `state` is what a worker
        has of its own, instead of the chief's values.
        """
        self._group = group
        self._meeting = meeting
        self._config = config
        self._facts = facts
        self._position = position
        self._watch_peers = watch_peers
        self._state = state
        self._graph: Graph = v1.get_default_graph()

    def chief_creator(
        self,
        make: Callable[[Callable[[v1.Session], None]], v1.train.SessionCreator],
        should_cancel: Callable[[], bool],
    ) -> v1.train.SessionCreator:
        """Returns the creator of the chief's session.

        `make` gets a function that the session calls when its variables have values.
        """
        return _Creator(self, lambda values: make(values.copy).create_session(), should_cancel)

    def worker_creator(
        self, scaffold: v1.train.Scaffold, should_cancel: Callable[[], bool]
    ) -> v1.train.SessionCreator:
        """Returns the creator of the session of another worker."""
        return _Creator(self, lambda values: self._receiving(scaffold, values), should_cancel)

    def create(
        self, make: Callable[[InitialValues], v1.Session], should_cancel: Callable[[], bool]
    ) -> v1.Session:
        """Meets the other workers, and returns a session with the chief's variables.

        Raises:
          ClusterError: A worker is absent or lost.
          WorkersDifferError: A worker is about to train something else.
          WaitCancelled: `should_cancel` returned True.
        """
        with self._graph.as_default():
            values = InitialValues(self._group)
            self._meeting.begin({**self._facts, **_graph_facts(self._group)}, should_cancel)
            self._watch_peers()
            with lost_workers_named(self._config):
                session = make(values)
                position = self._position
                is_chief = self._group.is_chief
                resumed_at = position.resumed_at if position and is_chief else 0
                elements = values.elements(session, resumed_at)
                if position is not None and not is_chief:
                    position.begin_after(session, elements)
        return session

    def _receiving(self, scaffold: v1.train.Scaffold, values: InitialValues) -> v1.Session:
        scaffold.finalize()
        config = self._config
        options = session_options(config)
        session = ServerSession(config.master, graph=self._graph, config=options)
        try:
            values.copy(session)
            if self._state is not None:
                self._state.restore(session, int(session.run(v1.train.get_global_step())))
            require_ready(session, scaffold.ready_for_local_init_op)
            session.run(scaffold.local_init_op, feed_dict=scaffold.local_init_feed_dict)
            require_ready(session, scaffold.ready_op)
        except BaseException:
            session.close()
            raise
        return session


@final
class _Creator(v1.train.SessionCreator):
    """Creator of the only session of a worker."""

    def __init__(
        self,
        start: WorkerStart,
        make: Callable[[InitialValues], v1.Session],
        should_cancel: Callable[[], bool],
    ):
        self._start = start
        self._make = make
        self._should_cancel = should_cancel

    def create_session(self) -> v1.Session:
        """Returns a session that is ready to train."""
        return self._start.create(self._make, self._should_cancel)


def _graph_facts(group: WorkerGroup) -> dict[str, Any]:
    """Returns the versions, the variables and the collectives of the default graph."""
    return {
        "version of replicate": version(),
        "version of TensorFlow": tf.__version__,
        "variable": [
            f"{variable.op.name} {variable.shape} {variable.dtype.base_dtype.name}"
            for variable in v1.global_variables()
        ],
        "collective": list(group.records),
    }
