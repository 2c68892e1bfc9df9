"""Sessions: creation, initial state, and the check that everything is initialised.

Owns the order in which a new session gets its state: variables (from a checkpoint or initialisers),
then local variables and tables, then the input at its position. Training, evaluation and prediction
use the same creator. After a loss the creator makes another session, and looks for the newest
checkpoint again. It saves nothing.
"""

import contextlib
import os
from collections.abc import Callable

import tensorflow as tf

from replicate._types import Graph, Tensor
from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.input_position import InputPosition
from replicate.estimator.checkpoints.reading import restore_variables
from replicate.estimator.cluster.server_session import ServerSession
from replicate.estimator.log import log
from replicate.estimator.session_options import complete_config

v1 = tf.compat.v1


class RestoringSessionCreator(v1.train.SessionCreator):
    """Creator of sessions that start at the newest checkpoint."""

    def __init__(
        self,
        scaffold: v1.train.Scaffold,
        saver: v1.train.Saver,
        find_checkpoint: Callable[[], str | None],
        session_config: v1.ConfigProto | None = None,
        position: InputPosition | None = None,
        target: str = "",
        keeps_values: bool = True,
        load: Callable[[v1.Session], None] | None = None,
        show_start: Callable[[str], None] | None = None,
        share: Callable[[v1.Session], int | None] | None = None,
    ):
        """Stores the parts of a session; makes none yet.

        Args:
          scaffold: Initialisers and checks of the default graph.
          saver: Loads the variables.
          find_checkpoint: Called for every session. Returns the path to load; None to initialise.
          session_config: Options of the session; None for soft placement and defaults.
          position: The input, which starts at the position of the checkpoint.
          target: Address of the server that runs the session, "" for this process.
          keeps_values: If True, variables on a server that are initialised already keep their
            values, because other processes continue to train them.
          load: Assigns values to variables after the initialisers ran; not called after a load.
          show_start: Called with a text that says where the variables get their values from.
          share: Called when the variables have their values; gives them to other workers. If it
            has changed them, it returns the number of batches to read on after.
        """
        self._keeps_values = keeps_values
        self._target = target
        self._graph: Graph = v1.get_default_graph()
        self._scaffold = scaffold
        self._saver = saver
        self._find_checkpoint = find_checkpoint
        self._config = complete_config(session_config)
        self._position = position
        self._load = load
        self._show_start = show_start
        self._share = share

    def create_session(self) -> v1.Session:
        """Returns a session in which every variable, table and iterator has its state.

        Raises:
          CheckpointError: The checkpoint to start from cannot be loaded.
          RuntimeError: Something is still uninitialised at the end.
        """
        with self._graph.as_default():
            self._scaffold.finalize()
            kind = ServerSession if self._target else v1.Session
            session = kind(self._target, graph=self._graph, config=self._config)
            try:
                self._fill(session)
            except BaseException:
                session.close()
                raise
        return session

    def _fill(self, session: v1.Session) -> None:
        scaffold = self._scaffold
        is_alive = self._is_alive(session)
        checkpoint = None if is_alive else self._find_checkpoint()
        if self._show_start is not None and not is_alive:
            self._show_start(
                f"restoring {os.path.basename(checkpoint)}"
                if checkpoint
                else "initializing the variables"
            )
        if is_alive:
            log.info("The variables have values: going on with them.")
        elif checkpoint is None:
            session.run(scaffold.init_op, feed_dict=scaffold.init_feed_dict)
            if scaffold.init_fn is not None:
                scaffold.init_fn(session)
            if self._load is not None:
                self._load(session)
        else:
            restore_variables(session, self._saver, checkpoint)
        require_ready(session, scaffold.ready_for_local_init_op)
        elements = None if self._share is None else self._share(session)
        session.run(scaffold.local_init_op, feed_dict=scaffold.local_init_feed_dict)
        require_ready(session, scaffold.ready_op)
        if self._position is not None and elements is not None:
            self._position.begin_after(session, elements)
        elif self._position is not None:
            self._begin_input(self._position, session, checkpoint, is_alive)

    def _begin_input(
        self, position: InputPosition, session: v1.Session, checkpoint: str | None, is_alive: bool
    ) -> None:
        """Starts the input at the position that fits the variables.

        If other processes continued to train while this process was started again, the position of
        the newest checkpoint is the nearest one.
        """
        if is_alive and position.has_begun:
            position.begin_again(session)
            return
        if is_alive:
            with contextlib.suppress(CheckpointError):
                checkpoint = self._find_checkpoint()
        position.begin(session, checkpoint)

    def _is_alive(self, session: v1.Session) -> bool:
        """Returns True if the variables are on a server, are initialised, and keep their values."""
        check = self._scaffold.ready_for_local_init_op
        if not self._target or check is None:
            return False
        missing = session.first_run(check)
        has_values = missing is None or not missing.size
        return has_values and self._keeps_values


def require_ready(session: v1.Session, uninitialized: Tensor) -> None:
    """Raises RuntimeError if the scaffold's check names variables without a value.

    A check that is an operation, without a value, names none.
    """
    found = None if uninitialized is None else session.run(uninitialized)
    names = [] if found is None else list(found.ravel())
    if names:
        shown = ", ".join(name.decode() for name in names)
        raise RuntimeError(
            f"The model cannot start: no value for {shown}. Every variable must be in "
            "GLOBAL_VARIABLES or LOCAL_VARIABLES, and be initialised by the Scaffold's init_op or "
            "local_init_op."
        )
