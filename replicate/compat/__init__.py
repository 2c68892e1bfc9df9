"""Programs and libraries of TensorFlow 1, run as they are.

`python -m replicate.compat PROGRAM [ARGUMENTS]` runs a program that was written for TensorFlow 1.4
to 1.15. `install()` adds to TensorFlow the `tf.estimator` that it no longer has, for libraries that
import it, and `uninstall()` takes it back. Importing this package changes nothing and does not
load TensorFlow.
"""

# `table.py` is the one list of old names. `old_modules.py` makes modules of it, `tf1_view.py` the
# TensorFlow 1 that old programs see, `installation.py` puts both into place, and `runner.py` runs
# programs.

from replicate.compat.installation import install, uninstall
from replicate.compat.runner import run

__all__ = ["install", "run", "uninstall"]
