"""oneDNN: the fast kernels that TensorFlow has for x86 processors.

TensorFlow leaves them off on processors without AVX-512 VNNI, unless an environment variable says
otherwise. It reads the variable once, while it is imported. Programs of this project turn oneDNN
on before; importing a library never does.
"""

import os
import platform
from collections.abc import Mapping

VARIABLE = "TF_ENABLE_ONEDNN_OPTS"

_X86 = ("x86_64", "amd64")


def missing_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that turn oneDNN on; none if the environment has a choice already.

    There are none on other processors than x86, either.
    """
    if VARIABLE in environment or platform.machine().lower() not in _X86:
        return {}
    return {VARIABLE: "1"}


def turn_on() -> None:
    """Turns oneDNN on for this process and its children, before TensorFlow is imported."""
    os.environ.update(missing_variables(os.environ))
