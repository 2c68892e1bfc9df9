"""A row of the table of old names, and the texts that several rows have."""

import ast
import dataclasses
import types
from collections.abc import Iterable, Mapping
from pathlib import Path

ESTIMATOR = "tf.estimator"
CONTRIB = "tf.contrib"
PRIVATE = "tensorflow_estimator.python.estimator"
"""Where libraries find the private modules of tf.estimator."""

SLIM = "It needs tf-slim: pip install tf-slim."
MISSING: Mapping[str, str] = types.MappingProxyType(
    {
        "tf_slim": SLIM,
        "tensorflow_gan": "It needs TF-GAN: pip install tensorflow-gan.",
        "tensorflow_probability": "It needs TensorFlow Probability: pip install "
        "'tensorflow-probability[tf]'.",
    }
)
"""Packages that are not always installed, and the sentence for a name that needs one."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One old name.

    Attributes:
      old: The dotted name in TensorFlow 1. With ".*" at its end, all names of a package.
      new: The dotted name of the replacement, where "tf" is `tf.compat.v1`. None if there is none.
      difference: What is different, or what to use if there is no replacement.
      page: Page in docs/howto, with or without an anchor, that tells more.
      keywords: If the replacement has the parameters in another order, or by other names: pairs of
        the old name and the new one, in the old order.
      kept_up_to: Number of positional arguments up to which a call works as it did, so that a
        rewritten program keeps it; None: all calls are rewritten.
    """

    old: str
    new: str | None
    difference: str = ""
    page: str = ""
    keywords: tuple[tuple[str, str], ...] = ()
    kept_up_to: int | None = None


NOTHING = "It has no counterpart here."
MEAN = "The loss is the mean over the batch in TensorFlow 2, the sum in TensorFlow 1."
STRATEGY = (
    "RunConfig takes a MirroredStrategy, OneDeviceStrategy, CentralStorageStrategy or "
    "ParameterServerStrategy of tf.distribute: each of its devices trains on a batch of its own."
)
TPU = "TPUs are not supported: use_tpu must be False."


def same(
    old: str, new: str, names: Iterable[str], difference: str = "", page: str = ""
) -> list[Row]:
    """Returns rows of names that are called alike in both packages."""
    return [Row(f"{old}.{name}", f"{new}.{name}", difference, page) for name in names]


def written_here(package: str, difference: str = "") -> list[Row]:
    """Returns rows of the public names of our package of the same name, such as "crf"."""
    new = f"replicate.compat.contrib.{package}"
    return same(f"{CONTRIB}.{package}", new, public_names(new), difference)


def public_names(package: str) -> list[str]:
    """Returns `__all__` of a package or module from its source: an import would load TensorFlow."""
    folder = Path(__file__).parents[3].joinpath(*package.split("."))
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    (names,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return list(names)


def modules_of(package: str, modules: Iterable[str]) -> list[Row]:
    """Returns rows of private modules, each of which has the names of its package."""
    return [Row(f"{package}.{module}.*", package) for module in modules]


def absent(old: str, names: Iterable[str], advice: str) -> list[Row]:
    """Returns rows of names without a replacement. The advice is the difference of each."""
    return [Row(f"{old}.{name}", None, advice) for name in names]
