"""Symbolic links in a directory that others may write to: the test that one leads out of it.

Reports and metric lines are written into directories of runs, and reports show what is in them. A
link there could make them change or show any other file of the user. This module does not import
TensorFlow. A path of another file system, such as `gs://`, has no links.
"""

import os
from pathlib import Path


def leads_out(path: str | Path, folder: str | Path) -> bool:
    """Returns True if a path in a folder is a symbolic link, or lies behind one, to elsewhere.

    The path need not exist. The folder may be a link itself.
    """
    if "://" in str(folder):
        return False
    root = os.path.realpath(folder)
    return os.path.commonpath([root, os.path.realpath(path)]) != root
