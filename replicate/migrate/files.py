"""Files of programs: which there are, and how their text is read and written.

Encoding, byte order mark, line ends and the rights of a file stay.
"""

import codecs
import dataclasses
import io
import os
import stat
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

_ENDINGS = (".py", ".ipynb")
_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages"))


LARGEST_PROGRAM = 2**20
"""Bytes of code: libcst takes about a minute and 2 GiB of memory for them."""

_LARGEST_NOTEBOOK = 100 * 2**20


class UnreadableFileError(ValueError):
    """A file whose text cannot be read; the message says why."""


class UnwritableFileError(ValueError):
    """A file that stays as it is; the message says why."""


@dataclasses.dataclass(frozen=True)
class Text:
    """Text of a file, with its own line ends. The encoding of a byte order mark is "utf-8-sig"."""

    text: str
    encoding: str


def find_files(paths: Iterable[str]) -> list[Path]:
    """Returns the Python files and notebooks of files and folders, each once.

    Folders are walked without hidden ones, virtual environments and site-packages, and without
    symbolic links. A folder that cannot be read is among the result in place of its files.

    Raises:
      FileNotFoundError: A path does not exist.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not os.path.lexists(path):
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}.")
        for each in _walk(path) if path.is_dir() else [path]:
            found.setdefault(Path(os.path.realpath(each)), each)
    return list(found.values())


def _walk(folder: Path) -> Iterator[Path]:
    unread: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=lambda e: unread.append(Path(e.filename))):
        folders[:] = sorted(each for each in folders if _is_walked(Path(root, each)))
        for name in sorted(names):
            path = Path(root, name)
            if path.suffix in _ENDINGS and not os.path.islink(path) and _may_be_file(path):
                yield path
    yield from unread


def _is_walked(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".") or folder.name in _FOLDERS
    return not (is_hidden or os.path.islink(folder) or os.path.exists(folder / "pyvenv.cfg"))


def _may_be_file(path: Path) -> bool:
    """Returns False for a pipe, a socket or a device; what cannot be asked may be a file."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def read_text(path: Path) -> Text:
    """Reads a file in the encoding that it declares.

    Raises:
      UnreadableFileError: It cannot be read, is no file or too large, or its encoding is unknown,
        wrong, or none that gives the same bytes back.
    """
    data = _read_bytes(path)
    encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        if path.suffix != ".ipynb":
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = Text(data.decode(encoding), encoding)
        is_kept = text.text.encode(encoding) == data
    except (SyntaxError, LookupError, ValueError) as error:
        raise UnreadableFileError(f"its encoding is wrong: {error}") from None
    if not is_kept:
        raise UnreadableFileError(f"its encoding is wrong: {encoding} does not give it back")
    return text


def _read_bytes(path: Path) -> bytes:
    """Returns what a file holds.

    Raises:
      UnreadableFileError: It cannot be read, is no file, or is too large.
    """
    largest = _LARGEST_NOTEBOOK if path.suffix == ".ipynb" else LARGEST_PROGRAM
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            os.listdir(path)  # The error says why it was not walked.
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableFileError("it is no file")
        if found.st_size > largest:
            raise UnreadableFileError(
                f"it has {found.st_size / 2**20:.1f} MiB, more than {largest / 2**20:.0f} MiB"
            )
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"it cannot be read: {error.strerror}") from None


def replace_text(path: Path, old: Text, new: Text) -> None:
    """Replaces the text of a file at once; a symbolic link stays one.

    Raises:
      UnwritableFileError: It is read-only, has changed since it was read, or cannot be written.
    """
    try:
        target = path.resolve()
        if not target.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise UnwritableFileError("It is read-only")
        if read_text(path) != old:
            raise UnwritableFileError("It has changed since it was read")
        _write_text(target, new)
    except (OSError, UnicodeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise UnwritableFileError(f"It cannot be written: {told}") from None
    except UnreadableFileError as error:
        raise UnwritableFileError(f"It has changed since it was read: {error}") from None


def _write_text(target: Path, text: Text) -> None:
    """Replaces the text of a file at once, and keeps its rights."""
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text.text.encode(text.encoding))
        os.chmod(name, stat.S_IMODE(target.stat().st_mode))
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
