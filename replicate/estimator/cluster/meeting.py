"""Meeting: the workers of a cluster without parameter servers begin and end together.

Owns the notes on the `Board`. At the start every worker says which process it is and what it is
about to train; the chief compares, and lets all begin or refuses with one error for all. A process
that was started again waits here until the others are, too. At the end the workers wait until the
chief has saved the last step, and the chief until they have seen that.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, final

import tensorflow as tf

from replicate.errors import ClusterError, WorkersDifferError
from replicate.estimator.cluster.board import ENDED, Board
from replicate.estimator.cluster.peers import cut_off
from replicate.estimator.cluster.servers import (
    LEAVE_SECS,
    POLL_SECS,
    SAY_SECS,
    WaitCancelled,
    have_ended,
    is_cut_off,
    poll_secs,
)
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig

Facts: TypeAlias = Mapping[str, Any]
"""Values that must be equal in all workers, by name. A list may be long: errors show one entry."""

TROUBLE = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
)
"""Errors of a chief that cannot be reached, or not yet."""


@final
class Meeting:
    """The beginning and the end of one training call of all workers."""

    def __init__(self, config: RunConfig, names: Sequence[str], rank: int, number: int) -> None:
        """Connects to nothing yet.

        Workers are in the order of their ranks; 0 is the chief. `number` counts the training calls
        of this process, to tell its notes from earlier ones.
        """
        self._config = config
        self._names = names
        self._rank = rank
        self._number = number
        self._id = uuid.uuid4().hex
        self._board = Board(config)

    def begin(self, facts: Facts, should_cancel: Callable[[], bool]) -> None:
        """Waits for all workers, and checks by equal facts that they are about to train the same.

        Raises:
          WorkersDifferError: A worker differs; all workers raise it with the same text.
          ClusterError: A worker does not come within `session_creation_timeout_secs`.
          CutOffError: No worker answers this one, and the others could go on without it.
          WaitCancelled: `should_cancel` returned True.
        """
        own = {"id": self._id, "cluster": self._config.cluster.jobs, "facts": facts}
        note = json.dumps({**own, "name": self._names[self._rank]}, sort_keys=True)
        wait = Wait(self._config, should_cancel)
        if self._rank == 0:
            self._admit(note, wait)
        else:
            self._ask(note, wait)

    def end(self) -> None:
        """Waits until the chief has saved its last step; in the chief, until the workers know.

        The chief does not wait for workers whose processes have ended.
        A signal does not end the wait: the chief would take a worker that leaves for a lost one.

        Raises:
          ClusterError: The chief is lost.
        """
        if self._rank == 0:
            self._dismiss()
        else:
            self._await_dismissal()

    def _key(self, name: str) -> str:
        return f"{self._number}/{name}"

    def _admit(self, note: str, wait: "Wait") -> None:
        """Waits for the notes of all workers and answers them."""
        key, notes = self._key("arrived/0"), self._exchange(self._key("arrived/0"), note)
        while True:
            prefix = self._key("arrived/")
            arrived = {
                int(found.removeprefix(prefix)): json.loads(text)
                for found, text in (notes or {}).items()
                if found.startswith(prefix)
            }
            absent = [name for rank, name in enumerate(self._names) if rank not in arrived]
            error = _difference(arrived, self._names)
            if error or not absent:
                ids = {rank: each["id"] for rank, each in arrived.items()}
                answer = json.dumps({"ids": ids, "error": error})
                while self._exchange(self._key("answer"), answer) is None:
                    wait.go_on("its own server to take a note")
                if error:
                    time.sleep(POLL_SECS)  # The workers read the answer before this process ends.
                    raise WorkersDifferError(error)
                return
            wait.go_on(", ".join(absent))
            notes = self._exchange() if notes else self._exchange(key, note)

    def _ask(self, note: str, wait: "Wait") -> None:
        """Leaves a note and waits for the chief's answer."""
        while True:
            notes = self._exchange(self._key(f"arrived/{self._rank}"), note)
            answer = (notes or {}).get(self._key("answer"))
            ids, error = _ids(answer), json.loads(answer or "{}").get("error")
            if error:
                raise WorkersDifferError(error)
            if ids.get(str(self._rank)) == self._id:
                return
            if ids and str(self._rank) not in ids:
                raise WorkersDifferError(
                    f"{self._names[self._rank]} is one worker too many: the chief trains with "
                    f"{len(ids)} workers already, and its cluster does not list this one. Give all "
                    "processes the same cluster in TF_CONFIG."
                )
            wait.go_on(f"{self._names[0]} to let this worker begin")

    def _dismiss(self) -> None:
        started = time.monotonic()
        others = range(1, len(self._names))
        while time.monotonic() - started < LEAVE_SECS:
            notes = self._exchange(self._key(ENDED), self._id)
            if notes:
                here = [rank for rank in others if self._key(f"left/{rank}") not in notes]
                if have_ended(self._config, here):
                    # Nobody needs the other notes: those of many calls would slow down each look.
                    self._exchange(self._key(ENDED), self._id, is_only=True)
                    return
            time.sleep(poll_secs(time.monotonic() - started, POLL_SECS))

    def _await_dismissal(self) -> None:
        started = heard_at = time.monotonic()
        while True:
            notes = self._exchange()
            now = time.monotonic()
            if notes is None and now - heard_at > _patience_secs(self._config):
                self._raise_lost_chief()
            if notes is not None:
                heard_at = now
                if self._key(ENDED) in notes:
                    self._exchange(self._key(f"left/{self._rank}"), self._id)
                    return
                if _ids(notes.get(self._key("answer"))).get(str(self._rank)) != self._id:
                    self._raise_lost_chief()  # It was started again meanwhile.
            time.sleep(poll_secs(now - started, POLL_SECS))

    def _raise_lost_chief(self) -> NoReturn:
        raise ClusterError(
            f"{self._config.task_type} {self._config.task_id} has made its last step, but "
            f"{self._names[0]} is lost and may not have saved it. Start both again; training "
            "continues from the newest checkpoint."
        )

    def _exchange(
        self, key: str = "", note: str = "", is_only: bool = False
    ) -> dict[str, str] | None:
        """Returns all notes; None if the chief cannot be reached."""
        try:
            return self._board.exchange(key, note, is_only=is_only)
        except TROUBLE:
            return None


@final
class Wait:
    """A wait with a limit, which is mentioned in the log if it takes long."""

    def __init__(self, config: RunConfig, should_cancel: Callable[[], bool]):
        self._config = config
        self._should_cancel = should_cancel
        self._started = time.monotonic()
        self._look_at = self._started + SAY_SECS
        self._has_said = False

    def go_on(self, what: str) -> None:
        """Sleeps until the next look at the processes that the wait is for.

        Raises:
          ClusterError: The wait has taken `session_creation_timeout_secs`.
          CutOffError: No worker answers this one, and the others could go on without it.
          WaitCancelled: `should_cancel` returned True.
        """
        config, waited = self._config, time.monotonic() - self._started
        if self._should_cancel():
            raise WaitCancelled(f"No longer waiting for {what}.")
        if waited > config.session_creation_timeout_secs:
            raise ClusterError(
                f"{config.task_type} {config.task_id} has waited "
                f"{config.session_creation_timeout_secs:g} seconds for {what}. Start it, correct "
                "its address in TF_CONFIG, or look for a fault of the network between the two."
            )
        if waited > SAY_SECS and not self._has_said:
            self._has_said = True
            log.warning("Waiting for %s.", what)
        self._end_if_cut_off()
        time.sleep(poll_secs(waited, POLL_SECS))

    def _end_if_cut_off(self) -> None:
        """Looks for a cut link of this worker from time to time."""
        if time.monotonic() < self._look_at:
            return
        if is_cut_off(self._config):
            raise cut_off(self._config)
        self._look_at = time.monotonic() + SAY_SECS


def _patience_secs(config: RunConfig) -> float:
    """Returns the seconds for which a chief that does not answer may still come back."""
    return min(LEAVE_SECS, config.all_reduce.timeout_secs if config.all_reduce else LEAVE_SECS)


def _ids(answer: str | None) -> dict[str, str]:
    """Returns the workers that the chief has let in, by rank; none without an answer."""
    found: dict[str, str] = json.loads(answer or "{}").get("ids", {})
    return found


def _difference(arrived: Mapping[int, Mapping[str, Any]], names: Sequence[str]) -> str:
    """Returns a text about the first worker that differs from the chief, "" if none does.

    The notes are by rank. There may be more workers than the chief expects.
    """
    chief = arrived.get(0)
    for rank, each in sorted(arrived.items()):
        if chief is None or rank == 0:
            continue
        if each["cluster"] != chief["cluster"]:
            return (
                f"{each['name']} has another cluster in TF_CONFIG than {names[0]}: "
                f"{json.dumps(each['cluster'])} and {json.dumps(chief['cluster'])}. Give all "
                "processes the same cluster."
            )
        for fact in sorted(chief["facts"], key=_rank_of_fact):
            value, found = chief["facts"][fact], each["facts"].get(fact)
            if found != value:
                there, here = first_difference(found, value)
                return (
                    f"{each['name']} is about to train something else than {names[0]}: its {fact} "
                    f"is {there}, and that of the chief {here}. Start the same program with the "
                    "same arguments and the same versions on all workers."
                )
    return ""


def _rank_of_fact(fact: str) -> tuple[bool, str]:
    """Puts versions first: of other ones, the variables may differ, too."""
    return not fact.startswith("version"), fact


def first_difference(found: Any, value: Any) -> tuple[str, str]:
    """Returns the texts of two values, of two lists only those of the first differing entries."""
    if isinstance(found, list) and isinstance(value, list):
        for index in range(max(len(found), len(value))):
            pair = [str(each[index]) if index < len(each) else "absent" for each in (found, value)]
            if pair[0] != pair[1]:
                return pair[0], pair[1]
    return repr(found), repr(value)
