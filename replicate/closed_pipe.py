"""Streams that take no more, as a pipe that nobody reads any more, in `| head`."""

import os
import signal
import sys
from typing import TextIO

from replicate.exit_codes import signal_exit_code


def drop(stream: TextIO) -> None:
    """Drops what is left to flush to a stream, and all that is written to it later."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def drop_output() -> int:
    """Drops what is left for standard output, and returns the exit code of a command."""
    drop(sys.stdout)
    return signal_exit_code(signal.SIGPIPE)
