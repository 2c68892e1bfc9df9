"""Versions that compare as versions do, and the parts of distutils that programs use."""

import functools
import os
import re
import shutil
from typing import Any

_PART = re.compile(r"\d+|[a-z]+", re.IGNORECASE)


@functools.total_ordering
class LooseVersion:
    """A version whose parts, numbers and words, are compared one by one.

    Attributes:
      vstring: The text.
      version: Its parts.
    """

    def __init__(self, vstring: Any = "") -> None:
        """Reads a text."""
        self.parse(str(vstring))

    def parse(self, vstring: str) -> None:
        """Reads another text."""
        self.vstring = vstring
        self.version = [int(e) if e.isdigit() else e for e in _PART.findall(vstring)]

    def __str__(self) -> str:
        return self.vstring

    def __repr__(self) -> str:
        return f"{type(self).__name__} ('{self.vstring}')"

    def __eq__(self, other: object) -> bool:
        return self._key() == _key_of(other)

    def __lt__(self, other: object) -> bool:
        return self._key() < _key_of(other)

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[bool, Any], ...]:
        """Returns a key; a word is before any number, as a pre-release is."""
        return tuple((isinstance(each, int), each) for each in self.version)


def _key_of(other: object) -> tuple[tuple[bool, Any], ...]:
    return (other if isinstance(other, LooseVersion) else LooseVersion(other))._key()


class VersionText(str):
    """A text with a version, which compares with texts of versions as versions do."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return _is_before(str(self), other)

    def __gt__(self, other: str) -> bool:
        return _is_before(other, str(self))

    def __le__(self, other: str) -> bool:
        return not _is_before(other, str(self))

    def __ge__(self, other: str) -> bool:
        return not _is_before(str(self), other)


def _is_before(one: str, other: str) -> bool:
    return LooseVersion(one) < LooseVersion(other)


def strtobool(val: str) -> int:
    """Returns 1 for y, yes, t, true, on and 1, 0 for their contraries.

    Raises:
      ValueError: It is another text.
    """
    value = val.lower()
    if value in ("y", "yes", "t", "true", "on", "1"):
        return 1
    if value in ("n", "no", "f", "false", "off", "0"):
        return 0
    raise ValueError(f"invalid truth value {val!r}")


def find_executable(executable: str, path: str | None = None) -> str | None:
    """Returns the path of a command, None if there is none."""
    return shutil.which(executable, path=path)


def mkpath(name: str, mode: int = 0o777, *unused: Any) -> list[str]:
    """Makes a folder and those above it, and returns [its path] if it is new."""
    is_new = not os.path.isdir(name)
    os.makedirs(name, mode, exist_ok=True)
    return [name] if is_new else []


def copy_tree(src: str, dst: str, *unused: Any) -> list[str]:
    """Copies a folder into another one, and returns the paths of the copies."""
    shutil.copytree(src, dst, dirs_exist_ok=True)
    return [
        os.path.join(dst, os.path.relpath(os.path.join(root, name), src))
        for root, _, names in os.walk(src)
        for name in names
    ]


def remove_tree(directory: str, *unused: Any) -> None:
    """Removes a folder."""
    shutil.rmtree(directory, ignore_errors=True)
