"""Quiet imports: hides what libraries print to standard error while they are imported.

TensorFlow prints from C++, past `sys.stderr`. `python -m replicate.report`, `python -m
replicate.run`, `replicate.compat` and the programs in `examples` import it in silence.
"""

import contextlib
import importlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hides the output to standard error inside the context; an error shows it."""
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 2)
        try:
            yield
        except Exception:
            output.seek(0)
            os.write(stderr, output.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def import_if_installed(name: str) -> None:
    """Imports a module in silence, if there is one of that name; an error shows what it printed."""
    with quiet_stderr(), contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(name)
