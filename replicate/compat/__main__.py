"""python -m replicate.compat [OPTIONS] PROGRAM [ARGUMENTS] runs a program of TensorFlow 1.

The program was written for TensorFlow 1.4 to 1.15, and runs as `python PROGRAM` ran it: its own
modules see `tf.compat.v1`, `tf.estimator` and `tf.contrib` as tensorflow. Also: -m MODULE
[ARGUMENTS]. Options:

--package=NAME      an installed package that sees TensorFlow 1, too; may be repeated
--num_towers=N      each Estimator trains on N towers: the first N GPUs, or the CPU for all
--devices=A,B       the devices of these towers, such as /gpu:0,/gpu:1
--python2           the program is of Python 2; without it, its modules are recognized one by one

oneDNN, TensorFlow's fast kernels for x86 processors, is on unless TF_ENABLE_ONEDNN_OPTS is set.
Exit codes: those of the program; 2 if there is no such program, if an option is wrong, or if the
program uses a name that is not here.
"""

import os
import sys
import types
from collections.abc import Sequence
from typing import Any

from replicate import onednn
from replicate.compat.runner import own_traceback, refuse, run
from replicate.exit_codes import ExitCode

_USAGE = "Usage: python -m replicate.compat [OPTIONS] PROGRAM.py|-m MODULE [ARGUMENTS]"
_OPTIONS = ("package", "num_towers", "devices", "python2")


def main(arguments: Sequence[str]) -> None:
    """Runs a program in this process.

    Raises:
      SystemExit: There is no program, or it ends by itself.
    """
    rest = list(arguments)
    options: dict[str, list[str]] = {name: [] for name in _OPTIONS}
    while rest and (option := _option(rest[0])) is not None:
        rest.pop(0)
        options[option[0]].append(option[1])
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
    onednn.turn_on()
    run(
        rest[0],
        *rest[1:],
        module=is_module,
        packages=options["package"],
        python2=bool(options["python2"]),
        **_towers(options["num_towers"], options["devices"]),
    )


def _option(argument: str) -> tuple[str, str] | None:
    """Returns name and value of an option of this program, None for another argument."""
    if argument == "--python2":
        return "python2", "True"
    name, equals, value = argument.removeprefix("--").partition("=")
    is_option = argument.startswith("--") and equals and name in _OPTIONS[:-1]
    return (name, value) if is_option else None


def _towers(numbers: Sequence[str], devices: Sequence[str]) -> dict[str, Any]:
    """Returns the towers as arguments of `run`."""
    if numbers and devices:
        refuse(f"--num_towers={numbers[-1]} and --devices={devices[-1]} exclude each other.")
    if numbers and not (numbers[-1].isdecimal() and int(numbers[-1]) >= 1):
        refuse(f"--num_towers must be a whole number >= 1, got {numbers[-1]!r}.")
    named = [name.strip() for name in devices[-1].split(",")] if devices else []
    if devices and not all(named):
        refuse(f"--devices must be names with commas between, got {devices[-1]!r}.")
    return {"num_towers": int(numbers[-1]) if numbers else None, "devices": named}


def _show(kind: type[BaseException], error: BaseException, tb: types.TracebackType | None) -> None:
    """Shows an error of the program as Python does, without the lines of this package.

    Of an interrupt it shows one line.
    """
    if issubclass(kind, KeyboardInterrupt):
        print("replicate.compat: interrupted (KeyboardInterrupt)", file=sys.stderr)
        return
    sys.__excepthook__(kind, error.with_traceback(own_traceback(tb)), own_traceback(tb))


if __name__ == "__main__":
    main(sys.argv[1:])
