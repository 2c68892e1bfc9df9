"""The hook of model averaging: workers that start, end, get lost and come back.

- A worker that starts copies the centers.
- A worker that ends marks its entry, so that nobody waits for it.
- A chief that starts in place of an earlier one opens a new round, since the state of the old round
  is unknown.
- While a round waits, the chief checks which contributions are missing. After some time it drops
  those workers, and the round goes on.

All of this is recorded in the shared state (`round_state.py`). The training steps that read it are
in `rounds.py`.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from replicate._types import Tensor
from replicate.model_average.round_state import (
    JOINED,
    LEFT,
    UNSEEN_DROPPED,
    WAITING_ROUND,
    is_worker_key,
)
from replicate.model_average.rounds import Rounds

v1 = tf.compat.v1
log = logging.get_absl_logger()

POLL_SECS = 0.5
"""Seconds between two checks of the chief for a round that waits."""
_LEAVE_SECS = 10
"""Seconds for which a worker that ends tries to mark its entry."""


class Membership:
    """Lets one worker join and leave the rounds of one optimizer.

    Attributes:
      copy_centers: Operation that copies the centers to the local weights.
    """

    def __init__(self, rounds: Rounds, has_trained: Tensor):
        """Makes the operations, in the default graph.

        `has_trained`, bool [], is True if there were local steps since the last round.
        """
        self._rounds = rounds
        self._state = rounds.state
        with v1.name_scope("membership"):
            self.copy_centers = rounds.copy_centers()
            self._leave = rounds.leave(has_trained)
            self._round_number = self._state.round_number()
            self._waiting_round = self._state.read(WAITING_ROUND)
            if rounds.is_chief:
                self._restart_round = rounds.restart_round()
                self._dropped_round = v1.placeholder(tf.int64, [], "excused_ticket")
                self._drop_one = rounds.add_present(self._dropped_round)

    @property
    def waits_for_others(self) -> bool:
        """True if this is the chief of several workers."""
        return self._rounds.is_chief and self._rounds.num_worker > 1

    def join(self, session: v1.Session) -> None:
        """Joins the rounds, starting with the values of the centers."""
        entries = self._read(session)
        worker = self._rounds.worker
        if self._rounds.is_chief and any(value != JOINED for value in entries.values()):
            session.run(self._restart_round)
        if entries.get(worker, LEFT) == LEFT:
            self._write(session, worker, JOINED)
        session.run(self.copy_centers)

    def leave(self, session: v1.Session) -> None:
        """Leaves the rounds; local steps since the last round become part of the open one."""
        limit = v1.RunOptions(timeout_in_ms=_LEAVE_SECS * 1000)
        try:
            session.run(self._leave, options=limit)
        except tf.errors.OpError as error:
            log.warning(
                "Model averaging: cannot tell the other workers that this one ends: %s. They wait "
                "for it for patience_secs.",
                error.message,
            )

    def waiting_round(self, session: v1.Session) -> int | None:
        """Returns the number of the round that waits for workers, or None if none does."""
        round_number, waiting = session.run([self._round_number, self._waiting_round])
        return int(round_number) if round_number == waiting else None

    def drop_missing(self, session: v1.Session, round_number: int, waited: float) -> None:
        """Lets a round that waited so many seconds go on without those that did not contribute."""
        entries = {k: v for k, v in self._read(session).items() if is_worker_key(k)}
        missing = [key for key, value in entries.items() if value not in (round_number, LEFT)]
        unknown = max(0, self._rounds.num_worker - len(entries))
        log.warning(
            "Model averaging: a round has waited %.0f seconds for %s and goes on without. A worker "
            "that comes back takes part again.",
            waited,
            ", ".join([*missing, *[f"{unknown} never seen"] * bool(unknown)]) or "nobody",
        )
        for key in missing:
            self._write(session, key, LEFT)
        if unknown:
            self._write(session, UNSEEN_DROPPED, 1)
        for _ in range(self._rounds.num_worker):
            session.run(self._drop_one, {self._dropped_round: round_number})

    def _read(self, session: v1.Session) -> dict[str, int]:
        keys, values = session.run(self._state.entries)
        return {key.decode(): int(value) for key, value in zip(keys, values, strict=True)}

    def _write(self, session: v1.Session, key: str, value: int) -> None:
        state = self._state
        session.run(state.write_fed, {state.fed_key: key, state.fed_value: value})


class ModelAverageHook(v1.train.SessionRunHook):
    """Lets a worker join when its session starts, and leave when training ends."""

    ends_before_save = True
    """The last round changes the averages, which an Estimator then saves."""

    def __init__(
        self, memberships: Callable[[], Sequence[Membership]], patience_secs: float | None
    ):
        """Keeps the arguments. Memberships are asked for once the graph is built."""
        self._find_memberships = memberships
        self._patience_secs = patience_secs
        self._memberships: Sequence[Membership] = ()

    def begin(self) -> None:
        """Looks up the memberships of the optimizer.

        Raises:
          ValueError: The optimizer has not been applied.
        """
        self._memberships = self._find_memberships()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Joins; the chief also starts to check for rounds that wait too long."""
        for membership in self._memberships:
            membership.join(session)
            if membership.waits_for_others and self._patience_secs is not None:
                timeout = _RoundTimeout(membership, session, self._patience_secs)
                v1.train.LooperThread.loop(
                    coord, min(POLL_SECS, self._patience_secs), timeout.check
                )

    def end(self, session: v1.Session) -> None:
        """Leaves the rounds."""
        for membership in self._memberships:
            membership.leave(session)


class _RoundTimeout:
    """Drops missing workers from a round that has waited for too long."""

    def __init__(self, membership: Membership, session: v1.Session, patience_secs: float):
        self._membership = membership
        self._session = session
        self._patience_secs = patience_secs
        self._round_number: int | None = None
        self._since = 0.0

    def check(self) -> None:
        """Drops the missing workers if the open round has waited for too long."""
        round_number = self._membership.waiting_round(self._session)
        now = time.monotonic()
        if round_number is None or round_number != self._round_number:
            self._round_number, self._since = round_number, now
        elif now - self._since > self._patience_secs:
            self._membership.drop_missing(self._session, round_number, now - self._since)
            self._round_number = None
