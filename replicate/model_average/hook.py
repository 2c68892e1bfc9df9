"""The hook of model averaging: workers that start, end, get lost and come back.

A worker that starts copies the centers; one that ends tells the others, who then do not wait for
it. A chief that starts where another one has worked before opens a new round, since nobody knows
how far the old one had come. While a round waits, the chief looks whose contribution is missing,
and after some time goes on without. All of that is notes on the board (`board.py`); what training
steps make of these is in `rounds.py`.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from replicate._types import Tensor
from replicate.model_average.round_state import EXCUSED, JOINED, LED, LEFT, is_worker_key
from replicate.model_average.rounds import Rounds

v1 = tf.compat.v1
log = logging.get_absl_logger()

POLL_SECS = 0.5
"""Seconds between two looks of the chief at a round that waits."""
_LEAVE_SECS = 10
"""How long a worker that ends tries to tell the others."""


class Membership:
    """One worker in the rounds of one optimizer, as the hook sees it; the graph holds the rest.

    Attributes:
      copy_centers: Operation that copies the centers to the local weights.
    """

    def __init__(self, rounds: Rounds, has_trained: Tensor):
        """Makes the operations, in the default graph.

        Args:
          rounds: This worker's part in them.
          has_trained: Whether there were local steps since the last round, bool [].
        """
        self._rounds = rounds
        self._board = rounds.board
        with v1.name_scope("membership"):
            self.copy_centers = rounds.copy_centers()
            self._leave = rounds.leave(has_trained)
            self._ticket = self._board.ticket()
            self._led = self._board.read(LED)
            if rounds.is_chief:
                self._begin_anew = rounds.begin_anew()
                self._excused_ticket = v1.placeholder(tf.int64, [], "excused_ticket")
                self._excuse_one = rounds.be_present(self._excused_ticket)

    @property
    def leads(self) -> bool:
        """Whether this is the chief, and there are others to wait for."""
        return self._rounds.is_chief and self._rounds.num_worker > 1

    def join(self, session: v1.Session) -> None:
        """Begins, with what the centers hold."""
        notes = self._read(session)
        worker = self._rounds.worker
        if self._rounds.is_chief and any(value != JOINED for value in notes.values()):
            session.run(self._begin_anew)
        if notes.get(worker, LEFT) == LEFT:
            self._write(session, worker, JOINED)
        session.run(self.copy_centers)

    def leave(self, session: v1.Session) -> None:
        """Ends; what this worker has trained since the last round becomes part of this one."""
        limit = v1.RunOptions(timeout_in_ms=_LEAVE_SECS * 1000)
        try:
            session.run(self._leave, options=limit)
        except tf.errors.OpError as error:
            log.warning("Model averaging: this worker ends without a word: %s", error.message)

    def waiting_ticket(self, session: v1.Session) -> int | None:
        """Returns the ticket of the round that waits for workers, if one does."""
        ticket, led = session.run([self._ticket, self._led])
        return int(ticket) if ticket == led else None

    def excuse_missing(self, session: v1.Session, ticket: int, waited: float) -> None:
        """Lets a round go on without the workers that have not come to it."""
        notes = {k: v for k, v in self._read(session).items() if is_worker_key(k)}
        missing = [key for key, note in notes.items() if note not in (ticket, LEFT)]
        unknown = max(0, self._rounds.num_worker - len(notes))
        log.warning(
            "Model averaging: a round has waited %.0f seconds for %s; it goes on without. A worker "
            "that comes back takes part again.",
            waited,
            ", ".join([*missing, *[f"{unknown} never seen"] * bool(unknown)]) or "nobody",
        )
        for key in missing:
            self._write(session, key, LEFT)
        if unknown:
            self._write(session, EXCUSED, 1)
        for _ in range(self._rounds.num_worker):
            session.run(self._excuse_one, {self._excused_ticket: ticket})

    def _read(self, session: v1.Session) -> dict[str, int]:
        keys, values = session.run(self._board.notes)
        return {key.decode(): int(value) for key, value in zip(keys, values, strict=True)}

    def _write(self, session: v1.Session, key: str, value: int) -> None:
        board = self._board
        session.run(board.write_fed, {board.fed_key: key, board.fed_value: value})


class ModelAverageHook(v1.train.SessionRunHook):
    """Lets a worker join when its session starts, and leave when training ends."""

    def __init__(
        self, memberships: Callable[[], Sequence[Membership]], patience_secs: float | None
    ):
        """Takes what is known once the graph is built, and how long the chief waits."""
        self._find = memberships
        self._patience_secs = patience_secs
        self._memberships: Sequence[Membership] = ()

    def begin(self) -> None:
        """Takes note of the optimizer's rounds.

        Raises:
          ValueError: The optimizer has not been applied.
        """
        self._memberships = self._find()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Joins, and starts to look after the rounds if this is the chief."""
        for membership in self._memberships:
            membership.join(session)
            if membership.leads and self._patience_secs is not None:
                watch = _Watch(membership, session, self._patience_secs)
                v1.train.LooperThread.loop(coord, min(POLL_SECS, self._patience_secs), watch.look)

    def end(self, session: v1.Session) -> None:
        """Leaves."""
        for membership in self._memberships:
            membership.leave(session)


class _Watch:
    """The chief's look at how long a round has waited."""

    def __init__(self, membership: Membership, session: v1.Session, patience_secs: float):
        self._membership = membership
        self._session = session
        self._patience_secs = patience_secs
        self._ticket: int | None = None
        self._since = 0.0

    def look(self) -> None:
        """Excuses the missing workers if the round has waited for too long."""
        ticket = self._membership.waiting_ticket(self._session)
        now = time.monotonic()
        if ticket is None or ticket != self._ticket:
            self._ticket, self._since = ticket, now
        elif now - self._since > self._patience_secs:
            self._membership.excuse_missing(self._session, ticket, now - self._since)
            self._ticket = None
