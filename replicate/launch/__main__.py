"""Starts a cluster of processes on this machine, for development, and waits for its end.

  python -m replicate.launch [FLAGS] -- COMMAND [ARGUMENTS]

The command runs once for each task, with its part in TF_CONFIG, for example:

  python -m replicate.launch --workers=2 --ps=1 --evaluator -- python -m examples.convnet

Without --chief the first of the workers is the chief. "python" means the one that runs the
launcher. Exit codes: 0 done, 2 wrong flags, 130/143 stopped by SIGINT/SIGTERM, else that of the
first task that failed.
"""

import ipaddress
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from absl import flags

from replicate.launch.console import LAUNCHER, Console
from replicate.launch.plan import cluster_plan
from replicate.launch.supervisor import Supervisor

_BAD_INPUT = 2
_RESTARTS = 10
_WARNING = (
    "SECURITY: TensorFlow's servers ask for no password and listen on all network interfaces, "
    "whatever the address: whoever reaches their ports can run code as you."
)


class _CountParser(flags.ArgumentParser[int]):
    """A count that may be left out, as in "--restart"."""

    syntactic_help = "a whole number"

    def parse(self, argument: str | int) -> int:
        """Returns the count that was given, the usual one for none, 0 for "--no…"."""
        text = {"true": str(_RESTARTS), "false": "0"}.get(str(argument), str(argument))
        if not (text.isascii() and text.isdecimal()):
            raise ValueError("it is not a whole number from 0 on")
        return int(text)

    def flag_type(self) -> str:
        """Returns what messages call the type."""
        return "int"


def define_flags() -> Any:
    """Returns the flags of the launcher, apart from those of any program in this process."""
    untyped: Any = flags.FlagValues
    values = untyped()
    of_launcher: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_bool("help", False, "Show this help.", short_name="h", **of_launcher)
    flags.DEFINE_integer(
        "workers", 2, "Processes that train, the chief included.", 1, **of_launcher
    )
    flags.DEFINE_integer("ps", 1, "Processes that keep the variables.", 0, **of_launcher)
    flags.DEFINE_bool("chief", False, "Add a chief to the workers.", **of_launcher)
    flags.DEFINE_bool("evaluator", False, "Add an evaluator.", **of_launcher)
    restart = flags.Flag(
        _CountParser(),
        flags.ArgumentSerializer(),
        "restart",
        0,
        f"Start a task again, up to so many times ({_RESTARTS} for a bare --restart), when a "
        "signal or an exit code from 128 on has ended it, after 1, 2, 4 ... 60 seconds.",
        boolean=True,
    )
    flags.DEFINE_flag(restart, **of_launcher)
    flags.DEFINE_float(
        "grace_secs", 10, "Seconds between asking tasks to end and SIGKILL.", 0, **of_launcher
    )
    flags.DEFINE_string("host", "127.0.0.1", "Address of this machine in TF_CONFIG.", **of_launcher)
    flags.DEFINE_bool("expose", False, "Allow a --host that is not loopback.", **of_launcher)
    return values


def main(arguments: Sequence[str]) -> int:
    """Runs the launcher.

    Args:
      arguments: Those of the command line, without the program's name.

    Returns:
      The exit code.
    """
    values = define_flags()
    try:
        command = values(["launch", *arguments])[1:]
        if values["help"].value:
            print(f"{__doc__}\n{_described(values)}")
            return 0
        command = _found(command)
        _check_host(values["host"].value, values["expose"].value)
        plan = cluster_plan(
            values["workers"].value,
            values["ps"].value,
            chief=values["chief"].value,
            evaluator=values["evaluator"].value,
            host=values["host"].value,
        )
    except (flags.Error, ValueError, OSError) as error:
        _fail(str(error))
    console = Console([str(task) for task in plan.tasks], sys.stdout, sys.stderr)
    console.line(LAUNCHER, _WARNING, is_error=True)
    supervisor = Supervisor(
        plan,
        command,
        console,
        restarts=values["restart"].value,
        grace_secs=values["grace_secs"].value,
        environment=_environment(os.environ, values["host"].value),
        bar_columns=console.bar_columns,
    )
    try:
        return supervisor.run()
    except BrokenPipeError:  # Who read our output has left; Python must not try to flush it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _described(values: Any) -> str:
    """The flags of the launcher, without those that absl adds to every program."""
    _, _, described = values.module_help(sys.modules[__name__]).partition(":\n")
    return f"flags:\n{described}"


def _fail(message: str) -> NoReturn:
    """Prints one line to standard error and exits."""
    print(f"replicate.launch: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(_BAD_INPUT)


def _found(command: Sequence[str]) -> list[str]:
    """Returns the command with a program that exists."""
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
            f"--host={host} is no loopback address: others may reach the cluster and run code in "
            "it. Add --expose if the network is private"
        )


def _environment(outer: Mapping[str, str], host: str) -> dict[str, str]:
    """The environment of the tasks: lines come at once, and no proxy stands between them."""
    environment = {"PYTHONUNBUFFERED": "1", **outer}
    for name in ("no_proxy", "NO_PROXY"):
        environment[name] = ",".join(filter(None, [outer.get(name), host]))
    return environment


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
