"""Command line of the example programs: flags, printed lines, exit codes, the model directory.

A program calls `define_run_flags` for the flags that most programs share, and `run(main)` at its
end. Its main function reads the flags with `read_run_flags`, checks them inside `bad_input`, claims
the model directory with `claim_model_dir`, and only then calls `import_tensorflow`: `--help` and
mistakes are answered at once, because nothing heavy is imported before.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, with a traceback |
| 2 | unusable flags or files, with one line |
| 3 | training diverged, with one line |
| 128 + signal number | stopped by a signal, after saving |
| 138 | another process of the cluster cannot be reached, with one line |
| 140 | no other worker can be reached, and the others go on, with one line |
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from absl import flags

import replicate
from replicate import onednn
from replicate.closed_pipe import drop_output
from replicate.quiet_imports import quiet_stderr

BAD_INPUT = 2
DIVERGED = 3
CONFIG_FILE = "config.json"
_PURPOSE_FILE = "trained_for.txt"
_LONGEST = 900
_LONGEST_WORD = 100
LARGEST_SIZE = 2**16
"""Upper bound of the sizes of batches and layers, so that a slip does not take all memory."""

_LARGEST_SEED = 2**62
"""Leaves room in 64 bits for the number of a worker, which is added."""

FLAGS = flags.FLAGS

flags.DEFINE_bool("help", False, "Show this help.", short_name="h")
flags.disclaim_key_flags()  # Flags defined below belong to the calling program.


def run(main: Callable[[], None]) -> NoReturn:
    """Parses the flags, runs `main` and exits with its exit code."""
    parse_flags()
    end_with(main)


def parse_flags() -> None:
    """Parses the command line. Exits after `--help` or an invalid flag."""
    try:
        extra = FLAGS(sys.argv)[1:]
    except flags.Error as error:
        fail(_with_accepted(error), BAD_INPUT)
    except ValueError as error:  # absl raises no class of its own for "--noflag=value".
        fail(str(error), BAD_INPUT)
    except RecursionError:  # absl looks for a flag with a similar name.
        fail(f"Unknown command line flag: {max(sys.argv[1:], key=len)}", BAD_INPUT)
    if FLAGS["help"].value:
        print(sys.modules["__main__"].__doc__)
        print(FLAGS.main_module_help())
        sys.exit(0)
    if extra:
        fail(f"only --flags are accepted, got {shlex.join(extra)}", BAD_INPUT)


def end_with(main: Callable[[], None]) -> NoReturn:
    """Runs `main` and exits with 0, or with the code that `main` exits with."""
    try:
        main()
    except KeyboardInterrupt:
        fail("stopped before training began", 128 + signal.SIGINT)
    except BrokenPipeError:
        _leave(drop_output())
    except SystemExit as end:
        _leave(end.code)
    _leave(0)


def _leave(code: object) -> NoReturn:
    """Exits the process.

    Exits without the interpreter's cleanup if a call to another process still hangs in the runtime:
    the cleanup would wait for it.
    """
    session = sys.modules.get("replicate.estimator.cluster.server_session")
    if isinstance(code, int) and session is not None and session.has_hanging_calls():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    sys.exit(code)


def fail(message: str, code: int) -> NoReturn:
    """Prints one line to standard error and exits.

    Cuts the middle out of long messages, and escapes characters that are not printable.
    """
    line = " ".join(message.split())
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)
    if len(line) > _LONGEST:
        head, tail = line[: _LONGEST * 2 // 3], line[-_LONGEST // 3 :]
        # A word that is cut is left out, unless it is so long that little else would stay.
        head = re.sub(rf" \S{{0,{_LONGEST_WORD}}}$", "", head)
        tail = re.sub(rf"^\S{{0,{_LONGEST_WORD}}} ", "", tail)
        line = f"{head} … {tail}"
    print(f"{program_name()}: {line}", file=sys.stderr)
    sys.exit(code)


def _with_accepted(error: flags.Error) -> str:
    """Returns the error's message, with the accepted values if the flag's value is no number."""
    message = str(error)
    flag = re.match(r"flag --(\w+)=", message)
    if flag is None or not isinstance(error.__context__, ValueError):
        return message
    accepted = FLAGS[flag[1]].parser.syntactic_help
    return message if not accepted or accepted in message else f"{message}; it takes {accepted}"


@contextlib.contextmanager
def bad_input() -> Iterator[None]:
    """Reports unusable flags and files (ValueError, OSError) in one line, with exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail(str(error), BAD_INPUT)


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Yields a list that collects SIGINT and SIGTERM. A second signal ends the program at once."""
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
    """Prints `text` beside a label. The texts of all labels start in the same column."""
    head, *rest = str(text).splitlines() or [""]
    print(f"{label:<16}{head}", *(f"{'':<16}{line}" for line in rest), sep="\n", flush=True)


def show_start(checkpoint: str | None, step: int, folder: str, last_step: int | None) -> None:
    """Prints the step at which training starts; without a `last_step` it has no end."""
    plan = f"continuing at step {step}"
    if last_step is not None and step >= last_step:
        plan = f"complete at step {step}, nothing to train up to step {last_step}"
    nothing = f"none in {folder}: starting at step 0"
    show("checkpoint", f"{checkpoint}: {plan}" if checkpoint else nothing)


def step_of(estimator: replicate.Estimator) -> int:
    """Returns the step at which training starts: that of the latest checkpoint, 0 without one."""
    is_begun = estimator.latest_checkpoint() is not None
    return int(estimator.get_variable_value("global_step")) if is_begun else 0


def program_name() -> str:
    """Returns the name of the running program, such as `examples.convnet`."""
    spec = sys.modules["__main__"].__spec__
    return spec.name if spec else os.path.basename(sys.argv[0])


def command_line() -> str:
    """Returns the command line of this process, quoted for a shell."""
    python = sys.executable
    if python.startswith(os.getcwd() + os.sep):
        python = os.path.relpath(python)
    return shlex.join([python, "-m", program_name(), *sys.argv[1:]])


def import_tensorflow() -> None:
    """Imports TensorFlow with oneDNN, hiding its start-up messages unless the import fails."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    onednn.turn_on()
    with quiet_stderr():
        import tensorflow as tf  # noqa: PLC0415
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Values of the flags of `define_run_flags`, whose help texts explain them."""

    data_dir: str | None
    model_dir: str
    num_towers: int | None
    devices: list[str] | None
    batch_size: int
    train_steps: int
    eval_every_steps: int
    save_every_steps: int | None
    seed: int
    progress: str
    profile_steps: tuple[int, int] | None = None
    dry_run: bool = False
    steal: bool = False


def define_run_flags(
    *, model_dir: str, batch_size: int, train_steps: int, eval_every_steps: int
) -> None:
    """Defines a flag for each field of `RunSettings`. The arguments are the program's defaults."""
    flags.DEFINE_string(
        "data_dir", None, "Folder of MNIST's IDX files. Default: the bundled digits."
    )
    flags.DEFINE_string("model_dir", model_dir, "Where checkpoints, events and pictures go.")
    flags.DEFINE_integer("num_towers", None, "Default: one for each GPU, but at least 2.", 1)
    flags.DEFINE_list("devices", None, "One for each tower. Default: GPUs if enough, else CPUs.")
    define_batch_size(batch_size, "Images in a step, over all towers together.")
    flags.DEFINE_integer("train_steps", train_steps, "The step to train to.", 1)
    flags.DEFINE_integer(
        "eval_every_steps",
        eval_every_steps,
        "Steps between two evaluations; in a cluster, each checkpoint is evaluated.",
        1,
    )
    flags.DEFINE_integer(
        "save_every_steps",
        None,
        "Most steps between two checkpoints. Default: saves with each evaluation; in a cluster and "
        "in a plain graph, every ten minutes.",
        1,
    )
    define_seed("Of the first weights, the order of the images and sampling.")
    flags.DEFINE_enum("progress", "auto", ["auto", "bar", "log", "off"], "How progress is shown.")
    flags.DEFINE_string(
        "profile_steps", None, "First and last step to trace for TensorBoard, such as 20:24."
    )
    flags.register_validator(
        "profile_steps",
        lambda x: x is None or re.fullmatch(r"[1-9]\d*:[1-9]\d*", x),
        "must be two steps, such as 20:24",
    )
    flags.DEFINE_bool(
        "dry_run", False, "Only compare one step of all towers with that of one tower."
    )
    define_steal()


def define_steal() -> None:
    """Defines the flag --steal."""
    flags.DEFINE_bool("steal", False, "Take the model directory over from a job that trains there.")


def define_batch_size(default: int | None, text: str) -> None:
    """Defines the flag --batch_size."""
    flags.DEFINE_integer("batch_size", default, text, 1, LARGEST_SIZE)


def define_hidden_units(default: list[str]) -> None:
    """Defines the flag --hidden_units, a list of numbers."""
    flags.DEFINE_list("hidden_units", default, "Units of each hidden layer.")
    flags.register_validator(
        "hidden_units", _are_sizes, "must be whole numbers above 0, such as 32,16"
    )


def _are_sizes(texts: list[str]) -> bool:
    """Returns True if there are texts, and each is a whole number from 1 to LARGEST_SIZE."""
    short = all(text.isdecimal() and len(text) <= len(str(LARGEST_SIZE)) for text in texts)
    return bool(texts) and short and all(0 < int(text) <= LARGEST_SIZE for text in texts)


def define_seed(text: str) -> None:
    """Defines the flag --seed."""
    flags.DEFINE_integer("seed", 0, text, -_LARGEST_SEED, _LARGEST_SEED)


def define_positive(name: str, default: float | None, text: str) -> None:
    """Defines a flag for a finite number above 0. None is accepted if it is the default."""
    flags.DEFINE_float(name, default, text)
    flags.register_validator(
        name, lambda x: x is None or (math.isfinite(x) and x > 0), "must be a number above 0"
    )


def define_learning_rate(defaults: Mapping[str, float]) -> None:
    """Defines the flag --learning_rate. Its help lists the default rate of each optimizer."""
    rates = ", ".join(f"{rate} for {name}" for name, rate in defaults.items())
    define_positive("learning_rate", None, f"Default: {rates}.")


def define_momentum(default: float, text: str) -> None:
    """Defines the flag --momentum, a number in [0, 1)."""
    flags.DEFINE_float("momentum", default, text)
    flags.register_validator("momentum", lambda x: 0 <= x < 1, "must be at least 0 and below 1")


def read_run_flags() -> RunSettings:
    """Returns the values of the flags of `define_run_flags`, after `parse_flags`."""
    values = {field.name: FLAGS[field.name].value for field in dataclasses.fields(RunSettings)}
    if values["profile_steps"] is not None:
        values["profile_steps"] = tuple(map(int, values["profile_steps"].split(":")))
    return RunSettings(**values)


def flags_without_effect(names: Iterable[str], *, needs: str, met: bool) -> list[str]:
    """Returns one message for each given flag that has no effect in this run, none if `met`.

    For example, `--damping` has no effect unless K-FAC trains: it needs "--optimizer=kfac". Flags
    that were not given on the command line never count.
    """
    if met:
        return []
    given = (FLAGS[name] for name in names if FLAGS[name].present)
    return [f"{flag.serialize()} has no effect without {needs}" for flag in given]


def refuse_unused_flags(*found: Iterable[str]) -> None:
    """Raises ValueError with all messages of some calls of `flags_without_effect`, if any."""
    wrong = [text for texts in found for text in texts]
    if wrong:
        raise ValueError(f"{'; '.join(wrong)}: leave out the one, or add the other")


def claim_model_dir(model_dir: str, purpose: str) -> None:
    """Makes the model directory and notes its purpose in it.

    Checkpoints of one model do not fit another, so a directory with checkpoints keeps its purpose.
    The processes of a cluster may call this at the same time.

    Args:
      model_dir: The directory.
      purpose: One line that differs between runs whose checkpoints do not fit each other.

    Raises:
      ValueError: The directory has no name, is a file, is not writable or of this machine, or holds
        checkpoints of another purpose.
    """
    folder = Path(model_dir)
    note = folder / _PURPOSE_FILE
    if not model_dir or "://" in model_dir:
        raise ValueError(f"--model_dir={model_dir} must be a directory of this machine")
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"--model_dir={model_dir} is a file, and must be a directory. Give another path or "
            "move the file away"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = note.exists() and (folder / "checkpoint").exists()
        earlier = note.read_text() if in_use else purpose
        staged = note.with_name(f"{note.name}.{os.getpid()}")
        staged.write_text(earlier)
        staged.replace(note)  # Other processes read the old text or the new, never a part.
    except OSError as error:
        raise ValueError(
            f"--model_dir={model_dir} cannot be written in: {error.filename}: {error.strerror}"
        ) from error
    if earlier != purpose:
        raise ValueError(
            f"--model_dir={model_dir} holds checkpoints of {earlier}, and this run is {purpose}; "
            "take another --model_dir, or delete that one"
        )


def record_config(model_dir: str, step: int, **settings: Any) -> None:
    """Writes the program's flags and other settings to `config.json` in the model directory.

    If they differ from those of the previous run, that run's file is kept as `config-<step>.json`,
    with the step that it reached. Called by the process that writes the checkpoints.

    Args:
      model_dir: The directory, made if missing. Any file system that TensorFlow knows.
      step: The global step at which training continues; 0 if nothing was saved yet.
      **settings: Further settings by name, such as params of a model or a RunConfig. Dataclasses
        are written as their fields; of a cluster, only the number of tasks of each job.

    Raises:
      ValueError: The directory is not writable.
    """
    import tensorflow as tf  # noqa: PLC0415

    found = {"program": program_name(), "flags": _flag_values(), **settings}
    text = json.dumps(found, indent=2, default=_as_json) + "\n"
    folder = model_dir.rstrip("/")
    path, kept = f"{folder}/{CONFIG_FILE}", f"{folder}/config-{step}.json"
    try:
        tf.io.gfile.makedirs(model_dir)
        earlier = text
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path) as file:
                earlier = str(file.read())
        # A file of this step means that the run in between made no step: its settings are dropped.
        if earlier != text and step > 0 and not tf.io.gfile.exists(kept):
            _replace_file(kept, earlier)
        _replace_file(path, text)
    except tf.errors.OpError as error:
        raise ValueError(
            f"The configuration of this run cannot be written to {path}: {error.message}. Take a "
            "directory that this user may write to."
        ) from error


def _replace_file(path: str, text: str) -> None:
    """Writes a file atomically: readers see the old text or the new, never a part."""
    import tensorflow as tf  # noqa: PLC0415

    staged = f"{path}.{os.getpid()}"
    with tf.io.gfile.GFile(staged, "w") as file:
        file.write(text)
    tf.io.gfile.rename(staged, path, overwrite=True)


def _flag_values() -> dict[str, Any]:
    """Returns the values of all flags in the program's `--help`, given or not."""
    known = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    return {flag.name: flag.value for flag in sorted(known, key=lambda flag: flag.name)}


def _as_json(value: Any) -> Any:
    """Returns a JSON value for `value`. It is the same in each run: no addresses of objects."""
    if isinstance(value, replicate.RunConfig):
        jobs = {job: len(tasks) for job, tasks in value.cluster.jobs.items()}
        return {**value.as_dict(), "cluster": jobs}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return getattr(value, "__qualname__", str(value))


def fail_in_use(error: replicate.ModelDirInUseError) -> NoReturn:
    """Ends the program because another job has its model directory; names the flag --steal."""
    fail(str(error).replace("RunConfig(steal_model_dir=True)", "--steal"), BAD_INPUT)


@contextlib.contextmanager
def training_errors(estimator: replicate.Estimator) -> Iterator[None]:
    """Ends the program with one line and an exit code if training inside stops early."""
    try:
        yield
    except (replicate.TrainingInterrupted, KeyboardInterrupt) as stop:
        show("saved", estimator.latest_checkpoint() or "nothing yet")
        show("go on with", command_line())
        sys.exit(getattr(stop, "code", 128 + signal.SIGINT))
    except replicate.NonFiniteError as error:
        fail(f"training diverged: {error}", DIVERGED)
    except replicate.CheckpointError as error:
        fail(str(error), BAD_INPUT)
    except replicate.ModelDirInUseError as error:
        fail_in_use(error)
    except replicate.ClusterError as error:
        fail(str(error), error.code)
