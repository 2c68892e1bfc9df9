"""Flags that training and evaluation share: images, network, clones.

Both programs call `define` next to their own flags. The flags belong to the calling program, so its
`--help` lists them. Nothing heavy is imported here, so `--help` is quick.
"""

import dataclasses
import math
from typing import TypeVar

from absl import flags

from examples import cli

FLAGS = flags.FLAGS
flags.disclaim_key_flags()

Settings = TypeVar("Settings")


class FlagError(ValueError):
    """Error of flags that do not fit the model, found while it is built.

    Programs answer with one line, as for any wrong flag. It is a type of its own so that the
    ValueErrors of other code keep their tracebacks.
    """


def define(*, split_name: str, batch_size: int, progress_of: str) -> None:
    """Defines the shared flags."""
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    string("dataset_name", "imagenet", "cifar10, digits, imagenet, mnist or tfrecords.")
    string("dataset_split_name", split_name, "Part of the dataset, such as train or test.")
    string("dataset_dir", None, "Folder of the dataset's files; digits have none.")
    integer("labels_offset", 0, "Taken from each label: 1 for ImageNet without the background.", 0)
    string("model_name", "inception_v3", "A network of examples/slim/networks.")
    string(
        "preprocessing_name", None, "Of examples/slim/preprocessing. Default: the network's own."
    )
    flags.DEFINE_bool("use_grayscale", False, "Whether colour images are made grey.")
    integer("num_preprocessing_threads", 4, "Images that are prepared at the same time.", 1, 1024)
    cli.define_batch_size(batch_size, f"Images that {progress_of}.")
    integer("num_clones", 1, "Copies of the model in this process, one for each GPU.", 1, 256)
    flags.DEFINE_bool("clone_on_cpu", False, "Whether the clones are on the CPU, GPUs or not.")
    flags.DEFINE_float(
        "moving_average_decay", None, "Weight of the past in averages of the variables. None: none."
    )
    flags.register_validator(
        "moving_average_decay", lambda x: x is None or 0 <= x < 1, "must be at least 0 and below 1"
    )


def define_image_size(name: str) -> None:
    """Defines a flag for the side of the images that the network gets."""
    text = "Side of the images in pixels. Default: the network's own."
    flags.DEFINE_integer(name, None, text, 1, 2**12)


def define_number(
    name: str, default: float | None, text: str, least: float = 0.0, *, above: bool = False
) -> None:
    """Defines a flag for a finite number.

    Args:
      name: Of the flag.
      default: Its default; if it is None, None is accepted.
      text: Its help.
      least: The least number that is accepted.
      above: True: refuse that number itself.
    """
    flags.DEFINE_float(name, default, text)

    def accepts(value: float | None) -> bool:
        if value is None:
            return default is None
        return math.isfinite(value) and (value > least if above else value >= least)

    flags.register_validator(
        name, accepts, f"must be a number {'above' if above else 'of at least'} {least:g}"
    )


def define_gone(name: str, default: int | str | bool, reason: str) -> None:
    """Defines a flag of slim's program that can only have its default here."""
    kinds = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, str: flags.DEFINE_string}
    kinds[type(default)](name, default, f"Only {default!r}. {reason}")
    flags.register_validator(name, lambda x: x == default, f"must be {default!r}. {reason}")


def unused() -> list[str]:
    """Returns a message for each shared flag that has no effect."""
    return cli.flags_without_effect(
        ["dataset_dir"],
        needs="a --dataset_name that has files",
        met=FLAGS["dataset_name"].value != "digits",
    )


def read(kind: type[Settings]) -> Settings:
    """Returns a dataclass whose fields have the values of the flags of the same names."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: FLAGS[name].value for name in names})
