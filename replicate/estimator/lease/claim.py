"""Claim of the writer lease of a model directory.

A process gets the lease at once if nobody holds it, if the holder has released it or has died on
this host, or if it is told to steal it. Otherwise it observes the holder: a renewal means that the
claim is refused, and `SILENCE_SECS` without one mean that the lease has run out. It measures this
time by its own clock, and counts no time in which it did not run itself.
"""

import time
import uuid
from collections.abc import Callable
from typing import NoReturn, final

from replicate.errors import ModelDirInUseError
from replicate.estimator.lease.lease_folder import (
    local_path,
    make_folder,
    newest_number,
    read_content,
    remove_folder,
    remove_older,
)
from replicate.estimator.lease.process_identity import has_ended, this_process
from replicate.estimator.lease.writer_lease import (
    RENEW_SECS,
    LeaseRecord,
    WriterLease,
    parse_record,
)
from replicate.estimator.log import log

SILENCE_SECS = 10.0
"""Seconds without a renewal after which a lease has run out."""

_POLL_SECS = 0.2
_LONGEST_POLL_SECS = 1.0
"""Seconds between two looks at a lease that count at most, also if the observer was stopped."""

_LATE_SECS = RENEW_SECS + 1
"""Seconds without a renewal after which the observer tells that it waits."""


def claim_lease(model_dir: str, steal: bool = False, above: int = 0) -> WriterLease | None:
    """Takes the writer lease of a model directory; waits up to 10 s if its holder is silent.

    `steal` takes it from a living holder, too. The number is higher than `above`, the highest that
    is known from elsewhere.

    Returns:
      The lease; None for a file system that has none, such as gs://.

    Raises:
      ModelDirInUseError: Another training job holds the lease.
      OSError: The file system refuses.
    """
    path = local_path(model_dir)
    if path is None:
        log.info("%s is on a file system without leases: start one training job only.", model_dir)
        return None
    observer = LeaseObserver(model_dir)
    while True:
        number = newest_number(path)
        content = read_content(path, number) if number else None
        if not number or steal or _is_free(content) or observer.has_run_out(number, content):
            _log_taking(model_dir, content)
            record = LeaseRecord(max(number, above) + 1, uuid.uuid4().hex, this_process())
            if _take(path, record):
                return WriterLease(model_dir, path, record)
        else:
            time.sleep(_POLL_SECS)


def is_held(model_dir: str) -> bool:
    """Returns True if a lease of a model directory is neither released nor that of a dead process.

    It may have run out.
    """
    path = local_path(model_dir)
    number = 0 if path is None else newest_number(path)
    return path is not None and number > 0 and not _is_free(read_content(path, number))


@final
class LeaseObserver:
    """Observer of the newest lease of a model directory, which somebody seems to hold."""

    def __init__(self, model_dir: str, clock: Callable[[], float] = time.monotonic):
        """Starts without an observation; `clock` returns seconds."""
        self._model_dir = model_dir
        self._clock = clock
        self._seen: tuple[int, bytes | None] | None = None
        self._looked_at = 0.0
        self._silent_secs = 0.0
        self._has_told = False

    def has_run_out(self, number: int, content: bytes | None) -> bool:
        """Takes note of the present content; returns True if it did not change for too long.

        Raises:
          ModelDirInUseError: It changed, so that the holder lives.
        """
        now = self._clock()
        seen, self._seen = self._seen, (number, content)
        if seen is None or seen[0] != number:
            self._silent_secs = 0.0
        elif seen[1] != content:
            self._silent_secs = 0.0
            if parse_record(content) is not None:  # None: it is just being written.
                self._refuse(content)
        else:
            self._silent_secs += min(now - self._looked_at, _LONGEST_POLL_SECS)
        self._looked_at = now
        if self._silent_secs > _LATE_SECS and not self._has_told:
            self._has_told = True
            log.warning(
                "Waiting for model_dir %s: %s holds its lease, and has not renewed it for %d s. "
                "After %d s without a renewal, this process takes over.",
                self._model_dir,
                _describe(content),
                self._silent_secs,
                SILENCE_SECS,
            )
        return self._silent_secs >= SILENCE_SECS

    def _refuse(self, content: bytes | None) -> NoReturn:
        raise ModelDirInUseError(
            f"Cannot train in model_dir {self._model_dir!r}: {_describe(content)} trains there, "
            "and two training jobs would destroy each other's checkpoints. Wait for its end, stop "
            "it, take another model_dir, or take over on purpose with "
            "RunConfig(steal_model_dir=True)."
        )


def _is_free(content: bytes | None) -> bool:
    """Returns True if a lease is released, or its holder has certainly ended."""
    record = parse_record(content)
    return record is not None and (record.is_released or has_ended(record.holder))


def _log_taking(model_dir: str, content: bytes | None) -> None:
    record = parse_record(content)
    if record is not None and not record.is_released:
        log.info("Taking over model_dir %s from %s.", model_dir, record.describe())


def _take(path: str, record: LeaseRecord) -> bool:
    """Makes the folder of a lease and ends all older leases; returns False if another was faster.

    A process that was stopped before it made the folder may find that later ones came meanwhile.
    """
    if not make_folder(path, record.number, record.content()):
        return False
    if newest_number(path) != record.number:
        remove_folder(path, record.number)
        return False
    remove_older(path, record.number)
    return True


def _describe(content: bytes | None) -> str:
    record = parse_record(content)
    return "an unknown process" if record is None else record.describe()
