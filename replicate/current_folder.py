"""The folder in which a command runs: `python -m` puts it first in `sys.path`."""

import os
import sys


def leave_current_folder() -> None:
    """Keeps a command that was started by `python -m` from importing what lies in its folder.

    Programs of users lie there, and their files may have the names of libraries. The folder stays
    if this project itself is imported from it.
    """
    here = os.getcwd()
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    is_safe = getattr(sys.flags, "safe_path", False)  # Python 3.11 has it.
    if not is_safe and sys.path[0] == here and os.path.realpath(here) != home:
        del sys.path[0]
