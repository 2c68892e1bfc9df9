"""How training may end but by coming to its end: a line for the user and an exit code for each way.

The exit codes are those of `examples.terminal`. Used by programs that train with an Estimator.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator

import replicate
from examples import terminal


@contextlib.contextmanager
def endings(estimator: replicate.Estimator) -> Iterator[None]:
    """Ends the program with a line and the right exit code if what runs inside is cut short."""
    try:
        yield
    except (replicate.TrainingInterrupted, KeyboardInterrupt) as stop:
        terminal.show("saved", estimator.latest_checkpoint() or "nothing yet")
        terminal.show("go on with", terminal.command())
        sys.exit(getattr(stop, "code", 128 + signal.SIGINT))
    except replicate.NonFiniteError as error:
        terminal.fail(f"training diverged: {error}", terminal.DIVERGED)
    except replicate.CheckpointError as error:
        terminal.fail(str(error), terminal.BAD_INPUT)
    except replicate.ClusterError as error:
        terminal.fail(str(error), terminal.CLUSTER_TROUBLE)
