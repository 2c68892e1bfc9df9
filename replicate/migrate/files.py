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


class UnreadableFileError(ValueError):
    """A file whose text cannot be read; the message says why."""


@dataclasses.dataclass(frozen=True)
class Text:
    """Text of a file, with its own line ends. The encoding of a byte order mark is "utf-8-sig"."""

    text: str
    encoding: str


def find_files(paths: Iterable[str]) -> list[Path]:
    """Returns the Python files and notebooks of files and folders, each once.

    Folders are walked without hidden ones, virtual environments and site-packages, and without
    symbolic links.

    Raises:
      FileNotFoundError: A path does not exist.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}.")
        for each in _walk(path) if path.is_dir() else [path]:
            found.setdefault(each.resolve(), each)
    return list(found.values())


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if _is_walked(Path(root, each)))
        for name in sorted(names):
            path = Path(root, name)
            if path.suffix in _ENDINGS and path.is_file() and not path.is_symlink():
                yield path


def _is_walked(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".") or folder.name in _FOLDERS
    return not (is_hidden or folder.is_symlink() or (folder / "pyvenv.cfg").exists())


def read_text(path: Path) -> Text:
    """Reads a file in the encoding that it declares.

    Raises:
      UnreadableFileError: The encoding is unknown, or wrong.
    """
    data = path.read_bytes()
    encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        if path.suffix != ".ipynb":
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return Text(data.decode(encoding), encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UnreadableFileError(f"its encoding is wrong: {error}") from None


def is_read_only(path: Path) -> bool:
    """Returns True if nobody may write to a file."""
    return not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


def write_text(path: Path, text: Text) -> None:
    """Replaces the text of a file at once; a symbolic link stays one."""
    target = path.resolve()
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text.text.encode(text.encoding))
        os.chmod(name, stat.S_IMODE(target.stat().st_mode))
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
