"""Error classes of the runtime.

An error that should end a program has the exit code of the program as its `code`
(`replicate/exit_codes.py`).
"""

import contextlib
import os
import sys
from typing import NoReturn

import tensorflow as tf

from replicate.exit_codes import ExitCode, signal_exit_code

v1 = tf.compat.v1

_STANDARD_ERROR = 2


class ArgumentTypeError(TypeError, ValueError):
    """An argument is of the wrong type.

    It is raised where tf.estimator raised a ValueError, so that programs that catch that go on
    working.
    """


class NonFiniteError(ArithmeticError, v1.train.NanLossDuringTrainingError):
    """A loss or gradient is NaN or infinite; the step that found it changed no variable.

    It is also the error of TensorFlow's own hook for such losses, which programs catch.

    Attributes:
      code: Exit code of a program that ends by it: 3, since another start would not help.
    """

    code = ExitCode.DIVERGED.value

    def __str__(self) -> str:
        """The message; the base class of TensorFlow would give the same one for every error."""
        return ArithmeticError.__str__(self)


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read, written, or used for this model. Nothing was overwritten.

    Attributes:
      code: Exit code of a program that ends by it: 2, since another start would not help.
    """

    code = ExitCode.BAD_INPUT.value


class ModelDirInUseError(RuntimeError):
    """Another training job writes to the model directory, or has taken it over. Nothing was lost.

    Attributes:
      code: Exit code of a program that ends by it: 2, since another start would not help.
    """

    code = ExitCode.BAD_INPUT.value


class WarmStartError(CheckpointError, ValueError):
    """A checkpoint does not fit the model that starts warm. It is a ValueError in tf.estimator."""


class SaveError(CheckpointError):
    """A checkpoint could not be written. `RunConfig(on_save_error="retry")` trains on after it.

    Attributes:
      fault: The first part of the message: the checkpoint and the fault.
    """

    def __init__(self, fault: str, advice: str):
        """Makes a message of a sentence about the fault, and of advice to start again."""
        super().__init__(f"{fault} {advice}")
        self.fault = fault


class ClusterConfigError(ValueError):
    """TF_CONFIG does not describe a cluster and a task in it.

    Attributes:
      code: Exit code of a program that ends by it: 2, since another start would not help.
    """

    code = ExitCode.BAD_INPUT.value


class WorkersDifferError(ValueError):
    """Workers that should train alike differ: another model, version, cluster, or other variables.

    Attributes:
      code: Exit code of a program that ends by it: 2, since another start would not help.
    """

    code = ExitCode.BAD_INPUT.value


class ClusterError(RuntimeError):
    """A process of the cluster cannot be reached, or cannot start its server.

    Attributes:
      code: Exit code of a program that ends by it: 138, for schedulers that start it again.
    """

    code = ExitCode.CLUSTER_TROUBLE.value

    def abort(self) -> NoReturn:
        """Writes the message past Python's streams, and ends the process as `exit` does."""
        with contextlib.suppress(OSError):
            os.write(_STANDARD_ERROR, f"\nClusterError: {self}\n".encode())
        self.exit()

    def exit(self) -> NoReturn:
        """Ends the process with `code`, at once.

        It is for programs that catch the error; a task of a cluster whose program does not ends
        with `code`, too. A thread may still hang in a call to a lost server: the interpreter's own
        exit waits some seconds for it.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.code)


class CutOffError(ClusterError):
    """No other worker answers this one, which is itself the lost one: the others can go on.

    Attributes:
      code: Exit code of a program that ends by it: 140, for schedulers that start it again.
    """

    code = ExitCode.CUT_OFF.value


class TrainingInterrupted(SystemExit):
    """A signal stopped training after its last step was saved.

    If it is not caught, it ends the process with the exit code that shells give to the signal.

    Attributes:
      code: 128 + signum: 130 for SIGINT, 143 for SIGTERM.
      signum: The signal.
      step: The last step that was made.
      checkpoint: The path of the checkpoint of that step.
    """

    def __init__(self, signum: int, step: int, checkpoint: str):
        super().__init__(signal_exit_code(signum))
        self.signum = signum
        self.step = step
        self.checkpoint = checkpoint
