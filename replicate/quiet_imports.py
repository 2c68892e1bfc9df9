"""Quiet imports: keeps what libraries print from C++ off the terminal.

Programs import TensorFlow inside of it: `python -m replicate.report`, and those in `examples`.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Keeps what is printed to standard error in C++ from the terminal; shown on an error."""
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except BaseException:
            chatter.seek(0)
            os.write(stderr, chatter.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
