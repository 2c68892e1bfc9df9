"""The flags that most of the example programs share, and what they hold as one value.

A program calls `define` where it defines its own flags, with its defaults, and `read` in its main
function. The flags count as the program's own, so that its `--help` lists them. Nothing heavy is
imported here, for `--help` to be quick.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

from absl import flags

FLAGS = flags.FLAGS
flags.disclaim_key_flags()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a program runs; `define` says what each of these is."""

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


def define(*, model_dir: str, batch_size: int, train_steps: int, eval_every_steps: int) -> None:
    """Defines a flag for each field of `RunSettings`, some with a default of the program's own."""
    flags.DEFINE_string(
        "data_dir", None, "Folder of MNIST's IDX files. Default: the bundled digits."
    )
    flags.DEFINE_string("model_dir", model_dir, "Where checkpoints, events and pictures go.")
    flags.DEFINE_integer("num_towers", None, "Default: one for each GPU, but at least 2.", 1)
    flags.DEFINE_list("devices", None, "One for each tower. Default: GPUs if enough, else CPUs.")
    flags.DEFINE_integer("batch_size", batch_size, "Images in a step, over all towers together.", 1)
    flags.DEFINE_integer("train_steps", train_steps, "The step to train to.", 1)
    flags.DEFINE_integer(
        "eval_every_steps",
        eval_every_steps,
        "Steps between two evaluations; in a cluster, each checkpoint is evaluated.",
        1,
    )
    flags.DEFINE_integer(
        "save_every_steps", None, "Steps between two checkpoints. Default: every ten minutes.", 1
    )
    flags.DEFINE_integer("seed", 0, "Of the first weights, the order of the images and sampling.")
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


def define_positive(name: str, default: float | None, text: str) -> None:
    """Defines a flag for a finite number above 0, or for None if that is its default."""
    flags.DEFINE_float(name, default, text)
    flags.register_validator(
        name, lambda x: x is None or (math.isfinite(x) and x > 0), "must be a number above 0"
    )


def define_learning_rate(defaults: Mapping[str, float]) -> None:
    """Defines the flag --learning_rate, whose default is that of the optimizer: name -> rate."""
    rates = ", ".join(f"{rate} for {name}" for name, rate in defaults.items())
    define_positive("learning_rate", None, f"Default: {rates}.")


def define_momentum(default: float, text: str) -> None:
    """Defines the flag --momentum, a number from 0 to 1, 1 excluded."""
    flags.DEFINE_float("momentum", default, text)
    flags.register_validator("momentum", lambda x: 0 <= x < 1, "must be at least 0 and below 1")


def read() -> RunSettings:
    """Returns what the flags of `define` hold. They must have been parsed."""
    values = {field.name: FLAGS[field.name].value for field in dataclasses.fields(RunSettings)}
    if values["profile_steps"] is not None:
        values["profile_steps"] = tuple(map(int, values["profile_steps"].split(":")))
    return RunSettings(**values)
