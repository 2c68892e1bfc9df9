"""tensorflow/kfac in a virtual environment of its own, where it takes the place of this K-FAC.

pip installs it once. Programs of the benchmarks then run there as they are: `import kfac` finds
tensorflow/kfac 0.2.4 on TensorFlow 2.15, and all other modules are those of this project.
"""

import pathlib
import runpy
import sys

from absl import flags

from benchmarks import harness
from examples.lazy_module import LazyModule

kfac = LazyModule("kfac")
v1 = LazyModule("tensorflow.compat.v1")

NAME = "tensorflow-kfac"
FOLDER = harness.ROOT / "runs" / "bench" / "venvs"
"""Default folder of the environment."""

PACKAGES = ("tensorflow-cpu==2.15.*", "tensorflow-probability==0.23.*", "scikit-learn")
ALONE = "kfac==0.2.4"
"""Installed without its dependencies: it asks for TensorFlow Probability of 2019, but works."""

_LAUNCH = (
    "import sys; sys.path.append(sys.path.pop(0)); from benchmarks import rivals; rivals._run()"
)
"""Puts this project behind the installed packages, since both have a package `kfac`."""


def install(folder: str) -> str:
    """Creates the environment if it is not there, and returns its Python.

    Raises:
      harness.ChildError: No suitable Python was found, or pip failed.
    """
    environment = pathlib.Path(folder).resolve() / NAME
    python = str(environment / "bin" / "python")
    ready, wanted = environment / ".ready", "\n".join([*PACKAGES, ALONE])
    if not ready.exists() or ready.read_text("utf-8") != wanted:
        purpose = f"install {NAME}"
        find = ["bash", str(harness.ROOT / "tools" / "find_python.sh"), "tf215"]
        base = harness.run_program(find, purpose).strip()
        harness.run_program([base, "-m", "venv", "--clear", str(environment)], purpose)
        pip = [python, "-m", "pip", "install", "--quiet"]
        harness.run_program([*pip, *PACKAGES], purpose)
        harness.run_program([*pip, "--no-deps", ALONE], purpose)
        ready.write_text(wanted, "utf-8")
    return python


def command(python: str, module: str, *options: str) -> list[str]:
    """Returns the command line that runs a benchmark with tensorflow/kfac."""
    # -E, -s: ignore PYTHONPATH and the user's packages, which may contain another `kfac`.
    return [python, "-E", "-s", "-c", _LAUNCH, f"benchmarks.{module}", *options]


def command_of(rival: str, module: str, *options: str) -> list[str]:
    """Returns the command line of a benchmark, of a rival in its environment unless it is ""."""
    if not rival:
        return harness.command(module, *options)
    return command(install(flags.FLAGS.environments), module, *options)


def is_here() -> bool:
    """Returns True where `import kfac` finds tensorflow/kfac."""
    return not hasattr(kfac, "graph_layer_collection")


def define_flags() -> None:
    """Defines --environments and --rival, by default none."""
    flags.DEFINE_string("environments", str(FOLDER), "Folder of the rival's environment.")
    flags.DEFINE_multi_enum("rival", [], [NAME], "Another K-FAC to compare with.")


def _run() -> None:
    """Runs the module that the command line names, with the behaviour of TensorFlow 1."""
    harness.set_environment()
    module = sys.argv.pop(1)
    if module != "benchmarks.start":  # It chooses the behaviour itself.
        v1.disable_v2_behavior()
        v1.enable_resource_variables()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
