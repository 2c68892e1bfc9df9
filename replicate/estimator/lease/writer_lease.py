"""WriterLease: the right of this process to write checkpoints into a model directory.

Owns the thread that renews the lease and the error of a holder that has lost it. `claim.py` makes
leases.

The record of a lease is a line of JSON. It names the holder for messages and holds a count of
renewals. Observers compare contents only, by their own clocks: the times in a record are those of
the holder, and are shown, never compared.
"""

import contextlib
import dataclasses
import errno
import json
import os
import threading
import time
from typing import final

from replicate.errors import ModelDirInUseError
from replicate.estimator.lease.lease_folder import (
    clear_work_folder,
    folder_name,
    newest_number,
    read_content,
    work_folder,
    write_content,
)
from replicate.estimator.lease.process_identity import ProcessIdentity
from replicate.estimator.log import log


@dataclasses.dataclass(frozen=True)
class LeaseRecord:
    """Holder and state of a lease.

    Attributes:
      number: Number of the lease in its directory; each lease has a higher one than those before.
      token: Random text that no other lease has.
      holder: Process that took the lease.
      since: Time at which it took the lease, by the clock of its host.
      renewals: Times that it has renewed the lease.
      held_secs: Seconds from the taking to the last renewal.
      is_released: True after the end of training.
    """

    number: int
    token: str
    holder: ProcessIdentity
    since: str = dataclasses.field(
        default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    )
    renewals: int = 0
    held_secs: int = 0
    is_released: bool = False

    def content(self) -> bytes:
        """Returns the content of the file."""
        fields = {**dataclasses.asdict(self), "holder": self.holder._asdict()}
        return json.dumps(fields).encode() + b"\n"

    def describe(self) -> str:
        """Returns the holder, and the start and the age of its lease, as users read them."""
        return (
            f"process {self.holder.pid} on host {self.holder.host} (lease {self.number}, taken "
            f"{self.since} by the clock of that host, held for {self.held_secs} s)"
        )


def parse_record(content: bytes | None) -> LeaseRecord | None:
    """Returns the record in a file's content; None if there is no file, or it is not whole."""
    try:
        fields = json.loads(content or b"")
        return LeaseRecord(**{**fields, "holder": ProcessIdentity(**fields["holder"])})
    except (KeyError, TypeError, ValueError):
        return None


RENEW_SECS = 2.0
"""Seconds between two renewals."""


@final
class WriterLease:
    """A lease that this process holds, from its making to `release`.

    Attributes:
      number: Number of the lease.
      folder: Path, as TensorFlow takes it, where files are written before they are published.
      is_lost: True after this process has noticed that another one took over.
    """

    def __init__(self, model_dir: str, path: str, record: LeaseRecord):
        """Starts to renew a lease, whose folder this process has made.

        `model_dir` is the directory as TensorFlow takes it, `path` the same for Python.
        """
        self.number = record.number
        self.folder = work_folder(f"{model_dir.rstrip('/')}/{folder_name(record.number)}")
        self.is_lost = False
        self._model_dir = model_dir
        self._path = path
        self._record = record
        self._taken_at = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="writer lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Makes sure that this process still holds the lease; reads one file.

        Raises:
          ModelDirInUseError: Another process took over.
        """
        if not self.is_lost:
            with contextlib.suppress(OSError):
                self.is_lost = not self._is_held()
        self.check_notice()

    def check_notice(self) -> None:
        """Passes on the news of the renewing thread; calls nothing of the system otherwise.

        Raises:
          ModelDirInUseError: Another process took over.
        """
        if self.is_lost:
            raise ModelDirInUseError(
                f"Training stops, and saves nothing more: {self._successor()} has taken over "
                f"model_dir {self._model_dir!r}. To continue here, end that process and start "
                "again; to train both, give them different directories."
            )

    def clear(self) -> None:
        """Deletes what a save has left in `folder`."""
        clear_work_folder(self._path, self.number)

    def release(self) -> None:
        """Ends the lease, so that the next process need not wait.

        A fork of the holder releases nothing.
        """
        if os.getpid() != self._record.holder.pid:
            return
        self._ended.set()
        self._thread.join()
        self.clear()
        secs = self._held_secs()
        released = dataclasses.replace(self._record, held_secs=secs, is_released=True)
        with contextlib.suppress(OSError):
            if self._is_held():
                write_content(self._path, self.number, released.content())

    def _renew(self) -> None:
        """Renews the lease until its end or its loss."""
        has_warned = False
        while not self.is_lost and not self._ended.wait(RENEW_SECS):
            try:
                if self._is_held():
                    self._write_renewal()
                else:
                    self.is_lost = True
            except OSError as error:
                if not has_warned:
                    log.warning("The lease of %s cannot be renewed: %s", self._model_dir, error)
                has_warned = True

    def _write_renewal(self) -> None:
        record = self._record
        self._record = dataclasses.replace(
            record, renewals=record.renewals + 1, held_secs=self._held_secs()
        )
        write_content(self._path, self.number, self._record.content())

    def _is_held(self) -> bool:
        """Returns True if the file of the lease exists and is that of this process.

        Raises:
          OSError: The file cannot be read, or somebody has removed it without taking over.
        """
        content = read_content(self._path, self.number)
        if content is None and newest_number(self._path) <= self.number:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.folder)
        return content is not None and self._record.token.encode() in content

    def _held_secs(self) -> int:
        return int(time.monotonic() - self._taken_at)

    def _successor(self) -> str:
        """Describes the process that took over."""
        with contextlib.suppress(OSError):
            number = newest_number(self._path)
            record = parse_record(read_content(self._path, number))
            if record is not None and number > self.number:
                return record.describe()
        return "another process"
