"""The packages of tf.contrib as programs of TensorFlow 1 see them.

`from replicate.compat.tf_contrib import rnn` gives all names of tf.contrib.rnn, wherever they are
now. A name without a counterpart fails when it is used. `replicate.migrate` writes such imports
where a program uses names that it cannot replace one by one.
"""

from typing import Any

from replicate.compat.old_modules import old_module
from replicate.compat.table import CONTRIB


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(old_module(CONTRIB, "replicate.v1"), name)
