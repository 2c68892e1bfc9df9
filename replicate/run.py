"""python -m replicate.run PROGRAM.py [ARGUMENTS] runs a program with oneDNN, without chatter.

TensorFlow prints lines about oneDNN, CPU instructions and MLIR before and between the first lines
of a program. This hides all that it prints while it is imported, unless the import fails, and later
its messages below errors, unless TF_CPP_MIN_LOG_LEVEL is set. It turns on oneDNN, TensorFlow's
fast kernels for x86 processors, unless TF_ENABLE_ONEDNN_OPTS is set. All else is as with
`python PROGRAM.py`. Exit codes: those of the program; 2 if there is no such file.
"""

import os
import runpy
import sys
import types
from collections.abc import Sequence
from typing import NoReturn

from replicate import onednn
from replicate.exit_codes import ExitCode
from replicate.quiet_imports import import_if_installed

_RUNNING = (__file__, runpy.__file__, "<frozen runpy>")
"""Files of the frames that run the program."""

_USAGE = "Usage: python -m replicate.run PROGRAM.py [ARGUMENTS]"


def main(arguments: Sequence[str]) -> None:
    """Runs a program, the first of the arguments, in this process. The others are its own.

    Raises:
      SystemExit: There is no program, or it ends by itself.
    """
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__)
        raise SystemExit(ExitCode.DONE)
    if not arguments:
        _refuse("no program is given")
    program = arguments[0]
    if not os.path.isfile(program):
        _refuse(f"there is no file {program!r}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    onednn.turn_on()
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11 has it.
        sys.path[0] = os.path.dirname(os.path.realpath(program))
    import_if_installed("tensorflow")  # Otherwise the program says what it misses.
    sys.argv = list(arguments)
    runpy.run_path(program, run_name="__main__")


def _refuse(trouble: str) -> NoReturn:
    print(f"replicate.run: {trouble}. {_USAGE}", file=sys.stderr)
    raise SystemExit(ExitCode.BAD_INPUT)


def _show(kind: type[BaseException], error: BaseException, tb: types.TracebackType | None) -> None:
    """Shows an error without the lines of this file, and an interrupt as one line."""
    if issubclass(kind, KeyboardInterrupt):
        print("replicate.run: interrupted (KeyboardInterrupt)", file=sys.stderr)
        return
    while tb is not None and tb.tb_frame.f_code.co_filename in _RUNNING:
        tb = tb.tb_next
    sys.__excepthook__(kind, error.with_traceback(tb), tb)


if __name__ == "__main__":
    sys.excepthook = _show
    main(sys.argv[1:])
