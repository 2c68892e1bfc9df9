"""The sessions of a worker, on a model that the chief has initialised.

The chief initialises the variables (`session.py`); a worker gets a session when that is done.
`recovery.py` waits for it. A worker connects only to the parameter servers, so that no worker waits
for another worker.
"""

import tensorflow as tf

from replicate._types import Graph
from replicate.estimator.cluster.server_session import ServerSession, SilentServerError
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session_options import session_options

v1 = tf.compat.v1

_NOT_YET = (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.FailedPreconditionError)


class ChiefNotReadyError(Exception):
    """The chief has not initialised the model yet."""


class WorkerSessionCreator(v1.train.SessionCreator):
    """Creator of sessions on a model that the chief has initialised."""

    def __init__(self, scaffold: v1.train.Scaffold, config: RunConfig):
        self._graph: Graph = v1.get_default_graph()
        self._scaffold = scaffold
        self._config = config

    def create_session(self) -> v1.Session:
        """Returns a session that is ready to train.

        Raises:
          ChiefNotReadyError: The chief has not initialised the model.
          SilentServerError: A server that accepts connections did not answer the session.
        """
        options = session_options(self._config)
        with self._graph.as_default():
            self._scaffold.finalize()
            session = ServerSession(self._config.master, graph=self._graph, config=options)
            try:
                if self._is_ready(session):
                    return session
            except SilentServerError:
                session.close()
                raise
            except _NOT_YET:
                pass
            except BaseException:
                session.close()
                raise
        session.close()
        raise ChiefNotReadyError

    def _is_ready(self, session: ServerSession) -> bool:
        scaffold = self._scaffold
        if session.first_run(scaffold.ready_for_local_init_op).size:
            return False
        session.run(scaffold.local_init_op, feed_dict=scaffold.local_init_feed_dict)
        return not session.run(scaffold.ready_op).size
