"""MetricExchange: adds up over workers what each of them has found in an evaluation.

Owns the notes with metric variables on the `Board`. Every worker leaves its own; the chief adds
them up in the order of ranks and answers all with the same totals. Notes need no step in common, so
that workers may be done with their shares at any time.
"""

import base64
import io
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from replicate.errors import WorkersDifferError
from replicate.estimator.cluster.board import Board
from replicate.estimator.cluster.meeting import TROUBLE, Wait, first_difference
from replicate.estimator.cluster.servers import LEAVE_SECS, POLL_SECS, have_ended, poll_secs
from replicate.estimator.run_config import RunConfig

_ANSWER = "evaluated/answer"


@final
class MetricExchange:
    """Sums over workers in one evaluation, as one of the workers sees it."""

    def __init__(
        self,
        config: RunConfig,
        names: Sequence[str],
        rank: int,
        should_cancel: Callable[[], bool] = bool,
    ):
        """Connects to nothing yet. Workers are in the order of their ranks; 0 is the chief."""
        self._config = config
        self._names = names
        self._rank = rank
        self._should_cancel = should_cancel
        self._board = Board(config)

    def share_of(self, batches: int) -> int:
        """Returns how many of a number of batches this worker evaluates."""
        size = len(self._names)
        return batches // size + (self._rank < batches % size)

    def totals(self, facts: Sequence[str], parts: Sequence[Any]) -> list[np.ndarray]:
        """Waits for all workers, and returns the sums of their arrays, alike in shapes and types.

        `facts` are lines that must be equal on all workers.

        Raises:
          WorkersDifferError: A worker evaluates something else; all raise it with the same text.
          ClusterError: A worker does not come within `session_creation_timeout_secs`.
          WaitCancelled: `should_cancel` returned True.
        """
        note = {"id": uuid.uuid4().hex, "facts": list(facts), "parts": _packed(parts)}
        wait = Wait(self._config, self._should_cancel)
        answer = self._add_up(note, wait) if self._rank == 0 else self._ask(note, wait)
        if answer["error"]:
            raise WorkersDifferError(answer["error"])
        return _unpacked(answer["totals"])

    def _add_up(self, own: Mapping[str, Any], wait: Wait) -> dict[str, Any]:
        """Waits for the notes of all workers and answers them."""
        while True:
            found = self._exchange()
            known = set(json.loads(found.get(_ANSWER, "{}")).get("ids", {}).values())
            notes = {0: own, **self._notes(found, known)}
            absent = [name for rank, name in enumerate(self._names) if rank not in notes]
            error = self._difference(notes)
            if error or not absent:
                break
            wait.go_on(f"{', '.join(absent)} to evaluate their share")
        ids = {rank: note["id"] for rank, note in notes.items()}
        totals = "" if error else _total([notes[rank]["parts"] for rank in sorted(notes)])
        answer = {"ids": ids, "error": error, "totals": totals}
        while not self._exchange(_ANSWER, json.dumps(answer)):
            wait.go_on("its own server to take a note")
        self._await_readers(set(ids.values()))
        return answer

    def _ask(self, own: Mapping[str, Any], wait: Wait) -> dict[str, Any]:
        """Leaves a note and waits for the chief's answer."""
        key = self._key(self._rank)
        while True:
            found = self._exchange(key, json.dumps(own))
            answer: dict[str, Any] = json.loads(found.get(_ANSWER, "{}"))
            if answer.get("ids", {}).get(str(self._rank)) == own["id"]:
                self._exchange(key, "{}")
                return answer
            wait.go_on(f"{self._names[0]} to add up the metrics of all workers")

    def _await_readers(self, ids: set[str]) -> None:
        """Waits until the workers have read the answer: the chief may be about to end.

        It does not wait for those whose processes have ended.
        """
        started = time.monotonic()
        while time.monotonic() - started < LEAVE_SECS:
            notes = self._notes(self._exchange(), set())
            waiting = [rank for rank, note in notes.items() if note["id"] in ids]
            if have_ended(self._config, waiting):
                return
            time.sleep(poll_secs(time.monotonic() - started, POLL_SECS))

    def _notes(self, found: Mapping[str, str], known: set[str]) -> dict[int, dict[str, Any]]:
        """Returns the notes of the other workers by rank, without those that have an answer."""
        read = {
            rank: json.loads(found.get(self._key(rank), "{}"))
            for rank in range(1, len(self._names))
        }
        return {rank: note for rank, note in read.items() if note and note["id"] not in known}

    def _difference(self, notes: Mapping[int, Mapping[str, Any]]) -> str:
        """Returns a text about the first worker that differs from the chief, "" if none does."""
        for rank, note in sorted(notes.items()):
            if note["facts"] != notes[0]["facts"]:
                there, here = first_difference(note["facts"], notes[0]["facts"])
                return (
                    f"{self._names[rank]} evaluates something else than {self._names[0]}: {there}, "
                    f"and the chief {here}. With AllReduce(evaluates=True) all workers must call "
                    "evaluate alike, with the same model and the same checkpoint."
                )
        return ""

    def _key(self, rank: int) -> str:
        return f"evaluated/{rank}"

    def _exchange(self, key: str = "", note: str = "") -> dict[str, str]:
        """Returns all notes; none if the chief cannot be reached."""
        try:
            return self._board.exchange(key, note)
        except TROUBLE:
            return {}


def _total(packed: Sequence[str]) -> str:
    """Returns the packed sums of packed arrays."""
    columns = zip(*map(_unpacked, packed), strict=True)
    return _packed([sum(each[1:], each[0]) for each in columns])


def _packed(arrays: Sequence[Any]) -> str:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, *arrays)
    return base64.b64encode(buffer.getvalue()).decode()


def _unpacked(text: str) -> list[np.ndarray]:
    with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]
