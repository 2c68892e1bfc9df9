"""Virtual environments of the rivals: other K-FACs, and matrix optimizers in PyTorch.

Each rival is installed with pip into its own environment, which is created once. This project never
imports a rival. The programs that run in the environments are the other modules of this folder;
they import no module of this project outside of it.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags

from benchmarks import harness

PROGRAMS = harness.ROOT / "benchmarks" / "rivals"
FOLDER = harness.ROOT / "runs" / "bench" / "venvs"
"""Default folder of the environments."""


class Rival(NamedTuple):
    """A framework with other optimizers.

    Attributes:
      prefix: Prefix of the names of its programs.
      python: Argument of `tools/find_python.sh`, which finds the Python of the environment.
      models: Models that it trains here.
      packages: Requirements for pip.
      alone: Requirements that pip installs afterwards without their dependencies.
      kinds: Kinds of its programs: "steps", "losses", "starts".
      missing: Sentences about optimizers that belong here but cannot run.
    """

    prefix: str
    python: str
    models: tuple[str, ...]
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("steps", "losses")
    missing: tuple[str, ...] = ()


RIVALS = {
    "tensorflow-kfac": Rival(
        "tensorflow_kfac",
        "tf215",
        ("convnet", "autoencoder"),
        ("tensorflow-cpu==2.15.*", "tensorflow-probability==0.23.*"),
        ("kfac==0.2.4",),  # Requires TensorFlow Probability of 2019, but works with a later one.
        kinds=("steps", "losses", "starts"),
    ),
    "kfac-jax": Rival(
        "kfac_jax",
        "cpu",
        ("autoencoder",),  # A step of the ConvNet takes many seconds on two cores.
        ("jax==0.8.3", "kfac-jax==0.0.8"),
    ),
    "pytorch": Rival(
        "pytorch",
        "cpu",
        ("convnet", "autoencoder"),
        ("torch==2.13.0", "pytorch-optimizer==4.1.0", "singd==0.0.5"),
        kinds=("losses",),
        missing=("kfac-pytorch does not race: pip finds no distribution of that name.",),
    ),
}


def install(name: str, folder: str) -> str:
    """Creates the environment of a rival if it does not exist, and returns its Python.

    Raises:
      harness.ChildError: No suitable Python was found, or pip failed.
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


def with_programs(kind: str) -> list[str]:
    """Returns the names of the rivals that have programs of a kind."""
    return [name for name, rival in RIVALS.items() if kind in rival.kinds]


def define_flags(kind: str = "", chosen: Sequence[str] = ()) -> None:
    """Defines --environments and, if `kind` is given, --rival.

    A program that adopts the key flags of this module shows them in --help.

    Args:
      kind: Kind of the rivals' programs, or "" to leave out --rival.
      chosen: Default of --rival.
    """
    flags.DEFINE_string("environments", str(FOLDER), "Folder of the rivals' environments.")
    if kind:
        flags.DEFINE_multi_enum("rival", chosen, with_programs(kind), "Rival; may be repeated.")


def command(name: str, python: str, kind: str, *arguments: str) -> list[str]:
    """Returns the command line of a rival's program."""
    program = PROGRAMS / f"{RIVALS[name].prefix}_{kind}.py"
    # -E, -s: ignore PYTHONPATH and the user's packages, which may contain another `kfac`.
    return [python, "-E", "-s", str(program), *arguments]
