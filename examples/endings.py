"""How training may end but by coming to its end: a line for the user and an exit code for each way.

The exit codes are those of `examples.cli`. Used by programs that train with an Estimator.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator

import replicate
from examples import cli


@contextlib.contextmanager
def endings(estimator: replicate.Estimator) -> Iterator[None]:
    """Ends the program with a line and the right exit code if what runs inside is cut short."""
    try:
        yield
    except (replicate.TrainingInterrupted, KeyboardInterrupt) as stop:
        cli.show("saved", estimator.latest_checkpoint() or "nothing yet")
        cli.show("go on with", cli.command())
        sys.exit(getattr(stop, "code", 128 + signal.SIGINT))
    except replicate.NonFiniteError as error:
        cli.fail(f"training diverged: {error}", cli.DIVERGED)
    except replicate.CheckpointError as error:
        cli.fail(str(error), cli.BAD_INPUT)
    except replicate.ClusterError as error:
        cli.fail(str(error), cli.CLUSTER_TROUBLE)
