"""Exit codes of programs that train, evaluate or launch.

The errors in `replicate/errors.py` carry these codes as `code`. This module does not load
TensorFlow, so that the launcher can use it.
"""

import enum

_FIRST_SIGNAL_CODE = 128


class ExitCode(enum.IntEnum):
    """Exit codes of a program.

    A scheduler should start a program again if its code is 128 or above: these codes say that
    another start may help.

    Attributes:
      DONE: The program did what it was asked to do.
      BUG: An error that no other code describes, with a traceback.
      BAD_INPUT: Wrong flags, a wrong TF_CONFIG, or files that cannot be used.
      DIVERGED: A loss, gradient or variable is NaN or infinite.
      LEFT_TO_DO: `python -m replicate.migrate` did its part, and some lines are left to the user.
      INTERRUPTED: SIGINT stopped the program, after a save if it is the one that saves.
      CLUSTER_TROUBLE: Another process of the cluster is absent, or sessions were lost too often.
      CUT_OFF: None of several other processes of the cluster answers, with workers that can go on
        without this one.
      TERMINATED: SIGTERM stopped the program, after a save if it is the one that saves.
    """

    DONE = 0
    BUG = 1
    BAD_INPUT = 2
    DIVERGED = 3
    LEFT_TO_DO = 4
    INTERRUPTED = 130
    CLUSTER_TROUBLE = 138
    CUT_OFF = 140
    TERMINATED = 143


def signal_exit_code(signum: int) -> int:
    """Returns the code with which shells report the end by a signal: 128 + signum."""
    return _FIRST_SIGNAL_CODE + signum
