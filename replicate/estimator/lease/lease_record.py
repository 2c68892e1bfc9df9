"""Lease record: content of a lease file, a line of JSON.

It names the holder for messages and holds a count of renewals. Observers compare contents only, by
their own clocks: the times in a record are those of the holder, and are shown, never compared.
"""

import dataclasses
import json
import time

from replicate.estimator.lease.process_identity import ProcessIdentity


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
