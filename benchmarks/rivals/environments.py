"""The other K-FACs, and the virtual environments that they run in.

Each is installed into an environment of its own, which is made once with pip; none is ever imported
here. Their programs are in `benchmarks/rivals`, and no module of this project runs there. Called by
the benchmarks that compare with them.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness

PROGRAMS = harness.ROOT / "benchmarks" / "rivals"
FOLDER = harness.ROOT / "runs" / "bench" / "venvs"
"""Where the environments are unless a command line says otherwise."""


class Rival(NamedTuple):
    """Another K-FAC.

    Attributes:
      prefix: Of the names of its programs.
      python: For `tools/find_python.sh`: which Python the environment is made with.
      models: What it trains here.
      packages: What pip installs.
      alone: What pip installs after them without what these say that they need.
    """

    prefix: str
    python: str
    models: tuple[str, ...]
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


RIVALS = {
    "tensorflow-kfac": Rival(
        "tensorflow_kfac",
        "tf215",
        ("convnet", "autoencoder"),
        ("tensorflow-cpu==2.15.*", "tensorflow-probability==0.23.*"),
        ("kfac==0.2.4",),  # It asks for TensorFlow Probability of 2019, and works with a later one.
    ),
    "kfac-jax": Rival(
        "kfac_jax",
        "cpu",
        ("autoencoder",),  # A step of the ConvNet takes it many seconds on two cores.
        ("jax==0.8.3", "kfac-jax==0.0.8"),
    ),
}


def install(name: str, folder: str) -> str:
    """Makes the environment of a rival, unless it is there; returns its Python.

    Raises:
      harness.ChildError: There is no Python for it, or pip failed.
    """
    rival = RIVALS[name]
    environment = pathlib.Path(folder).resolve() / name
    python = str(environment / "bin" / "python")
    ready = environment / ".ready"
    if not ready.exists():
        purpose = f"install {name}"
        find = ["bash", str(harness.ROOT / "tools" / "find_python.sh"), rival.python]
        base = harness.run_program(find, purpose).strip()
        harness.run_program([base, "-m", "venv", "--clear", str(environment)], purpose)
        pip = [python, "-m", "pip", "install", "--quiet"]
        harness.run_program([*pip, *rival.packages], purpose)
        if rival.alone:
            harness.run_program([*pip, "--no-deps", *rival.alone], purpose)
        ready.touch()
    return python


def define_flags(chosen: Sequence[str] | None = None) -> None:
    """Defines --environments; and --rival, for programs that can do without some of the rivals.

    They are shown by --help of a program that adopts the key flags of this module.

    Args:
      chosen: Which rivals unless a command line says otherwise; None for programs without --rival.
    """
    flags.DEFINE_string("environments", str(FOLDER), "Where the rivals' environments are.")
    if chosen is not None:
        flags.DEFINE_multi_enum("rival", chosen, list(RIVALS), "Other K-FACs; may be repeated.")


def command(name: str, python: str, kind: str, *arguments: str) -> list[str]:
    """Returns the command line of a rival's program.

    Args:
      name: Of the rival.
      python: Of its environment.
      kind: "steps" or "losses".
      arguments: Of the program.
    """
    program = PROGRAMS / f"{RIVALS[name].prefix}_{kind}.py"
    # -E, -s: neither PYTHONPATH nor the user's own packages, where another `kfac` may be.
    return [python, "-E", "-s", str(program), *arguments]
