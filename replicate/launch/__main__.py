"""Runs a cluster of processes on this machine, for development, until all of them have ended.

  python -m replicate.launch [FLAGS] -- COMMAND [ARGUMENTS]

The command runs once for each task, with the task's TF_CONFIG in its environment. For example:

  python -m replicate.launch --workers=2 --ps=1 --evaluator -- python -m examples.convnet

  python -m replicate.launch --workers=4 --all_reduce --restart -- python train.py

Without --chief the first worker is the chief. "python" means the Python that runs the launcher.
Each task has a log file with all that it prints; the terminal leaves out TensorFlow's own lines.
oneDNN, TensorFlow's fast kernels for x86, is on in all tasks unless TF_ENABLE_ONEDNN_OPTS is set.
Exit codes: 0 done, 2 wrong flags or a command that cannot start, 129/130/141/143 stopped by SIGHUP,
SIGINT, SIGPIPE (a closed pipe) or SIGTERM, else the exit code of the first task that failed.
"""

import sys

from replicate.current_folder import leave_current_folder

if __name__ == "__main__":
    leave_current_folder()

import io
import ipaddress
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TextIO

from absl import flags

from replicate import onednn
from replicate.closed_pipe import drop_output
from replicate.launch.console import LAUNCHER, Console
from replicate.launch.plan import cluster_plan
from replicate.launch.supervisor import Supervisor
from replicate.launch.task_logs import TaskLogs

_BAD_INPUT = 2
_RESTARTS = 10
_LOGS = os.path.join("runs", "launch")
_WARNING = (
    "SECURITY: TensorFlow's servers ask for no password and listen on all network interfaces, "
    "whatever the address: anybody who reaches their ports can run code as you."
)


class _CountParser(flags.ArgumentParser[int]):
    """Parses a count that may be left out, as in "--restart"."""

    syntactic_help = "a whole number"

    def parse(self, argument: str | int) -> int:
        """Returns the given count, the default count for a bare flag, or 0 for "--no…".

        Raises:
          ValueError: The argument is not a whole number ≥ 0.
        """
        text = {"true": str(_RESTARTS), "false": "0"}.get(str(argument), str(argument))
        if not (text.isascii() and text.isdecimal()):
            raise ValueError("it is not a whole number ≥ 0")
        return int(text)

    def flag_type(self) -> str:
        """Returns the name of the type in messages."""
        return "int"


def define_flags() -> Any:
    """Returns the flags of the launcher, separate from all other flags of this process."""
    untyped: Any = flags.FlagValues
    values = untyped()
    of_launcher: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_bool("help", False, "Show this help.", short_name="h", **of_launcher)
    flags.DEFINE_integer(
        "workers", 2, "Processes that train, including the chief.", 1, **of_launcher
    )
    flags.DEFINE_integer(
        "ps", 1, "Parameter servers: processes that hold the variables.", 0, **of_launcher
    )
    flags.DEFINE_bool(
        "all_reduce",
        False,
        "No parameter servers: for RunConfig(train_distribute=replicate.AllReduce()).",
        **of_launcher,
    )
    flags.DEFINE_integer(
        "min_workers",
        None,
        "With --all_reduce and AllReduce(min_workers=…): go on without lost workers while this "
        "many are left. With --restart they come back, and fewer wait for them.",
        1,
        **of_launcher,
    )
    flags.DEFINE_bool("chief", False, "Add a chief to the workers.", **of_launcher)
    flags.DEFINE_bool("evaluator", False, "Add an evaluator.", **of_launcher)
    restart = flags.Flag(
        _CountParser(),
        flags.ArgumentSerializer(),
        "restart",
        0,
        f"Restart a task up to this many times ({_RESTARTS} for a bare --restart) if it ends by a "
        "signal or with an exit code of 128 or above, after 1, 2, 4 ... 60 seconds; after 1 again "
        "if it ran for five minutes.",
        boolean=True,
    )
    flags.DEFINE_flag(restart, **of_launcher)
    flags.DEFINE_float(
        "grace_secs", 10, "Seconds between asking tasks to end and SIGKILL.", 0, **of_launcher
    )
    flags.DEFINE_string(
        "log_dir",
        None,
        f"Folder of the log files, one per task. Default: a new one in {_LOGS}.",
        **of_launcher,
    )
    flags.DEFINE_string("host", "127.0.0.1", "Address of this machine in TF_CONFIG.", **of_launcher)
    flags.DEFINE_bool("expose", False, "Allow a --host that is not loopback.", **of_launcher)
    return values


def main(arguments: Sequence[str]) -> int:
    """Runs the launcher by its command line, and returns the exit code."""
    stdout, stderr = _tolerant(sys.stdout), _tolerant(sys.stderr)
    values = define_flags()
    try:
        command = values(["launch", *arguments])[1:]
        if values["help"].value:
            print(f"{__doc__}\n{_flags_help(values)}")
            return 0
        command = _with_program_path(command)
        _check_host(values["host"].value, values["expose"].value)
        plan = cluster_plan(
            values["workers"].value,
            _number_of_servers(values),
            chief=values["chief"].value,
            evaluator=values["evaluator"].value,
            host=values["host"].value,
        )
        _check_min_workers(values)
    except BrokenPipeError:
        return drop_output()
    except (flags.Error, ValueError, OSError) as error:
        _fail(str(error))
    names = [str(task) for task in plan.tasks]
    console = Console(names, stdout, stderr, lambda: supervisor.end(signal.SIGPIPE))
    log_dir = values["log_dir"].value or _new_log_dir()
    with TaskLogs(log_dir, console) as logs:
        supervisor = Supervisor(
            plan,
            command,
            logs,
            restarts=values["restart"].value,
            grace_secs=values["grace_secs"].value,
            environment=_environment(os.environ, values["host"].value),
            bar_columns=console.bar_columns,
            min_workers=values["min_workers"].value,
        )
        console.line(LAUNCHER, _WARNING, is_error=True)
        console.line(LAUNCHER, f"logs of the tasks: {log_dir}", is_error=True)
        try:
            code = supervisor.run()
        except OSError as error:
            _fail(f"cannot start {command[0]!r}: {error.strerror}")
        logs.report_failures(supervisor.failed)
    return code


def _tolerant(stream: TextIO | None) -> TextIO:
    """Returns a stream that takes all characters, in place of one that may be closed."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _new_log_dir() -> str:
    """Returns the path of a folder that no other launch uses."""
    return os.path.join(_LOGS, f"{time.strftime('%Y-%m-%d_%H.%M.%S')}_{os.getpid()}")


def _number_of_servers(values: Any) -> int:
    """Returns the number of parameter servers.

    Raises:
      ValueError: Some are asked for, and --all_reduce, which has none.
    """
    if not values["all_reduce"].value:
        return int(values["ps"].value)
    if values["ps"].present and values["ps"].value:
        raise ValueError(
            f"--all_reduce trains without parameter servers, and --ps={values['ps'].value} asks "
            "for some. Leave one of the two out"
        )
    return 0


def _check_min_workers(values: Any) -> None:
    """Raises ValueError for a --min_workers that cannot be kept."""
    fewest, workers = values["min_workers"].value, values["workers"].value
    if fewest is not None and not values["all_reduce"].value:
        raise ValueError(
            f"--min_workers={fewest} is for workers without parameter servers. Add --all_reduce"
        )
    if fewest is not None and fewest > workers + values["chief"].value:
        raise ValueError(f"--min_workers={fewest} is more than --workers={workers}")


def _flags_help(values: Any) -> str:
    """Returns the help of the launcher's flags, without the flags that absl adds."""
    _, _, described = values.module_help(sys.modules[__name__]).partition(":\n")
    return f"flags:\n{described}"


def _fail(message: str) -> NoReturn:
    """Prints one line to standard error and exits."""
    print(f"replicate.launch: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(_BAD_INPUT)


def _with_program_path(command: Sequence[str]) -> list[str]:
    """Returns the command with the full path of its program.

    Raises:
      ValueError: There is no command, or no such program.
    """
    if not command:
        raise ValueError("no command to run; write it after the flags and --, see --help")
    program, *arguments = command
    path = sys.executable if program == "python" else shutil.which(program)
    if path is None:
        raise ValueError(f"no program {program!r} is found")
    return [path, *arguments]


def _check_host(host: str, is_exposed: bool) -> None:
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not (is_loopback or is_exposed):
        raise ValueError(
            f"--host={host} is no loopback address: other people may reach the cluster and run "
            "code in it. Add --expose if the network is private"
        )


def _environment(outer: Mapping[str, str], host: str) -> dict[str, str]:
    """Returns the environment of the tasks: unbuffered output, oneDNN, no proxy between them."""
    environment = {"PYTHONUNBUFFERED": "1", **outer, **onednn.missing_variables(outer)}
    for name in ("no_proxy", "NO_PROXY"):
        environment[name] = ",".join(filter(None, [outer.get(name), host]))
    return environment


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
