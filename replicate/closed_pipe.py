"""The end of a command whose output goes to a pipe that nobody reads any more, as in `| head`."""

import os
import signal
import sys

from replicate.exit_codes import signal_exit_code


def drop_output() -> int:
    """Keeps Python from flushing what is left for standard output, and returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return signal_exit_code(signal.SIGPIPE)
