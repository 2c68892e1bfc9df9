"""Lease folders: `writer-N.lease` in a model directory, one for each lease.

Owns the names and the operations of the file system, none of which needs locks:

- A new folder is filled under another name and moved to its place. That fails if there is a folder
  already, so that one process at most gets a number.
- The holder writes every file of a checkpoint in its folder first and moves it out when it is
  complete (`checkpoints/fenced_model_dir.py`).
- The next holder moves the folder away and deletes it. From then on the files of the old holder
  have no path, so that nothing it does can change the model directory, even if it was stopped in
  the middle of a save.

The folder with the highest number stays when training ends, so that numbers never fall.
"""

import contextlib
import errno
import os
import re
import shutil
import uuid

_FOLDER = re.compile(r"writer-(\d+)\.lease")
_LEFT_OVER = re.compile(r"writer-\d+\.lease\.(new|old)-[0-9a-f]{32}")
_RECORD_FILE = "lease"
_WORK_FOLDER = "saving"
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ENOENT)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_ATTEMPTS = 3


def local_path(model_dir: str) -> str | None:
    """Returns the path of a mounted directory; None for a file system inside of TensorFlow.

    Only mounted file systems move and make files in one indivisible operation.
    """
    path = model_dir.removeprefix("file://")
    return None if "://" in path or not os.path.isdir(path) else path


def folder_name(number: int) -> str:
    """Returns the name of the folder of a lease."""
    return f"writer-{number}.lease"


def work_folder(folder: str) -> str:
    """Returns the path, in the folder of a lease, where its holder writes files first."""
    return f"{folder}/{_WORK_FOLDER}"


def newest_number(path: str) -> int:
    """Returns the highest number of a lease in a directory, 0 if there is none."""
    return max(_numbers(path), default=0)


def read_content(path: str, number: int) -> bytes | None:
    """Returns the content of a lease's file; None if it does not exist."""
    try:
        with open(_record_path(path, number), "rb") as file:
            return file.read()
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def write_content(path: str, number: int, content: bytes) -> None:
    """Overwrites a lease's file in its place, which takes no space on a full disk.

    Raises:
      OSError: It cannot be written, or does not exist.
    """
    with open(_record_path(path, number), "r+b") as file:
        file.write(content)
        file.truncate()


def make_folder(path: str, number: int, content: bytes) -> bool:
    """Makes the folder of a lease; returns False if another process was faster.

    Raises:
      OSError: The file system refuses.
    """
    made = f"{path}/{folder_name(number)}.new-{uuid.uuid4().hex}"
    try:
        os.makedirs(work_folder(made))
        with open(f"{made}/{_RECORD_FILE}", "wb") as file:
            file.write(content)
        os.rename(made, f"{path}/{folder_name(number)}")
    except OSError as error:
        shutil.rmtree(made, ignore_errors=True)
        if error.errno in _TAKEN:
            return False
        raise
    return True


def remove_folder(path: str, number: int) -> None:
    """Moves the folder of a lease away, which ends the lease, and deletes it.

    Raises:
      OSError: The file system refuses.
    """
    moved = f"{path}/{folder_name(number)}.old-{uuid.uuid4().hex}"
    try:
        os.rename(f"{path}/{folder_name(number)}", moved)
    except OSError as error:
        if error.errno in _GONE:
            return
        raise
    _delete(moved)


def remove_older(path: str, number: int) -> None:
    """Ends all leases with lower numbers, and deletes what killed processes have left of others.

    Raises:
      OSError: The file system refuses to end a lease.
    """
    for older in sorted(_numbers(path)):
        if older < number:
            remove_folder(path, older)
    for name in os.listdir(path):
        if _LEFT_OVER.fullmatch(name):
            _delete(f"{path}/{name}")


def clear_work_folder(path: str, number: int) -> None:
    """Deletes what a save has left in the folder of a lease, if that still exists."""
    folder = work_folder(f"{path}/{folder_name(number)}")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            _delete(f"{folder}/{name}")


def _numbers(path: str) -> list[int]:
    found = map(_FOLDER.fullmatch, os.listdir(path))
    return [int(match[1]) for match in found if match]


def _record_path(path: str, number: int) -> str:
    return f"{path}/{folder_name(number)}/{_RECORD_FILE}"


def _delete(path: str) -> None:
    """Deletes a file or a tree, to which its old owner may still add files."""
    for _ in range(_ATTEMPTS):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.remove(path)
        if not os.path.lexists(path):
            return
