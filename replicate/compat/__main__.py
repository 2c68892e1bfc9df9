"""python -m replicate.compat [--package=NAME] PROGRAM [ARGUMENTS] runs a program of TensorFlow 1.

The program was written for TensorFlow 1.4 to 1.15, and runs as `python PROGRAM` ran it: its own
modules see `tf.compat.v1`, `tf.estimator` and `tf.contrib` as tensorflow. Also: -m MODULE
[ARGUMENTS]. Each --package names an installed package that sees TensorFlow 1, too. Exit codes:
those of the program; 2 if there is no such program, or if it uses a name that is not here.
"""

import os
import sys
import types
from collections.abc import Sequence

from replicate.compat.runner import own_traceback, refuse, run
from replicate.exit_codes import ExitCode

_USAGE = "Usage: python -m replicate.compat [--package=NAME] PROGRAM.py|-m MODULE [ARGUMENTS]"
_PACKAGE = "--package="


def main(arguments: Sequence[str]) -> None:
    """Runs a program in this process.

    Args:
      arguments: Command line without the name of this one.

    Raises:
      SystemExit: There is no program, or it ends by itself.
    """
    rest = list(arguments)
    packages = []
    while rest and rest[0].startswith(_PACKAGE):
        packages.append(rest.pop(0).removeprefix(_PACKAGE))
    if rest and rest[0] in ("-h", "--help"):
        print(__doc__)
        raise SystemExit(ExitCode.DONE)
    is_module = bool(rest) and rest[0] == "-m"
    if is_module:
        rest.pop(0)
    if not rest:
        refuse(f"no program is given. {_USAGE}")
    if rest[0].startswith("-"):
        refuse(f"no flag {rest[0]} is known. {_USAGE}")
    if sys.path[0] == os.getcwd() and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # -m added it.
    sys.excepthook = _show
    run(rest[0], *rest[1:], module=is_module, packages=packages)


def _show(kind: type[BaseException], error: BaseException, tb: types.TracebackType | None) -> None:
    """Shows an error of the program as Python does, without the lines of this package."""
    sys.__excepthook__(kind, error.with_traceback(own_traceback(tb)), own_traceback(tb))


if __name__ == "__main__":
    main(sys.argv[1:])
