"""How the example programs talk to a terminal: flags in, lines out, an exit code at the end.

`run(main)` starts a program. It exits with 0 when main returns, 2 with one line for flags or
files that cannot be used, 3 with one line when training diverged, 128 + signal number when it was
stopped after saving, 138 with one line when another process of the cluster cannot be reached, and 1
with a traceback for everything else. Nothing here trains anything.

TensorFlow is imported by `import_tensorflow`, which programs call when the flags are known to be
good, so that `--help` and mistakes are answered at once.
"""

import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

from absl import flags

from replicate.quiet_imports import without_chatter

BAD_INPUT = 2
DIVERGED = 3
CLUSTER_TROUBLE = 138
_LONGEST = 900

flags.DEFINE_bool("help", False, "Show this help.", short_name="h")


def run(main: Callable[[], None]) -> NoReturn:
    """Parses the flags, runs `main` and exits with the code that says how it went."""
    parse_flags()
    end_with(main)


def parse_flags() -> None:
    """Parses the command line; ends the program where it asks for help, or is wrong."""
    try:
        extra = flags.FLAGS(sys.argv)[1:]
    except flags.Error as error:
        fail(_with_accepted(error), BAD_INPUT)
    if flags.FLAGS["help"].value:
        print(sys.modules["__main__"].__doc__)
        print(flags.FLAGS.main_module_help())
        sys.exit(0)
    if extra:
        fail(f"only --flags are accepted, got {shlex.join(extra)}", BAD_INPUT)


def end_with(main: Callable[[], None]) -> NoReturn:
    """Runs `main` and exits with the code that says how it went."""
    try:
        main()
    except KeyboardInterrupt:
        fail("stopped before training began", 128 + signal.SIGINT)
    except SystemExit as end:
        _leave(end.code)
    _leave(0)


def _leave(code: object) -> NoReturn:
    """Exits; at once if the runtime still waits for another process, which cannot be stopped."""
    session = sys.modules.get("replicate.estimator.session")
    if isinstance(code, int) and session is not None and session.has_hanging_calls():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    sys.exit(code)


def fail(message: str, code: int) -> NoReturn:
    """Prints one line to standard error and exits; of a long message, its beginning and its end."""
    line = " ".join(message.split())
    if len(line) > _LONGEST:
        head, tail = line[: _LONGEST * 2 // 3], line[-_LONGEST // 3 :]
        line = f"{head.rpartition(' ')[0]} … {tail.partition(' ')[2]}"
    print(f"{program()}: {line}", file=sys.stderr)
    sys.exit(code)


def _with_accepted(error: flags.Error) -> str:
    """Returns what is wrong with a flag; if it is no number, also what the flag accepts."""
    message = str(error)
    flag = re.match(r"flag --(\w+)=", message)
    if flag is None or not isinstance(error.__context__, ValueError):
        return message
    accepted = flags.FLAGS[flag[1]].parser.syntactic_help
    return message if not accepted or accepted in message else f"{message}; it takes {accepted}"


@contextlib.contextmanager
def bad_input() -> Iterator[None]:
    """Answers what the user got wrong, in flags or files, with one line and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail(str(error), BAD_INPUT)


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM in a list, for a loop to look at; a second one ends at once."""
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = {n: signal.signal(n, receive) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show(label: str, text: object) -> None:
    """Prints `text` under a label, with the lines of all labels in one column."""
    head, *rest = str(text).splitlines() or [""]
    print(f"{label:<16}{head}", *(f"{'':<16}{line}" for line in rest), sep="\n", flush=True)


def show_start(checkpoint: str | None, step: int, folder: str, last_step: int | None) -> None:
    """Prints where training starts.

    Args:
      checkpoint: The newest one of the run; None if there is none.
      step: Of the checkpoint.
      folder: Where checkpoints are.
      last_step: The step to train to, if there is one.
    """
    plan = f"continuing at step {step}"
    if last_step is not None and step >= last_step:
        plan = f"complete at step {step}, nothing to train up to step {last_step}"
    nothing = f"none in {folder}: starting at step 0"
    show("checkpoint", f"{checkpoint}: {plan}" if checkpoint else nothing)


def program() -> str:
    """Returns the name of the running program, such as `examples.convnet`."""
    spec = sys.modules["__main__"].__spec__
    return spec.name if spec else os.path.basename(sys.argv[0])


def command() -> str:
    """Returns the command line that started this process, ready to be typed again."""
    python = sys.executable
    if python.startswith(os.getcwd() + os.sep):
        python = os.path.relpath(python)
    return shlex.join([python, "-m", program(), *sys.argv[1:]])


def import_tensorflow() -> None:
    """Imports TensorFlow without the lines that its C++ part prints on the way.

    If the import fails, they are printed after all.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with without_chatter():
        import tensorflow as tf  # noqa: PLC0415
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
