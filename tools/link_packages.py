"""Links packages of the environment that runs this into another one.

pip would unpack hundreds of megabytes again, which takes a minute of a processor.

    .venv/bin/python tools/link_packages.py VENV --pins LOCK
    .venv/bin/python tools/link_packages.py VENV --wheel WHEEL --extras=cpu

With --pins it links what LOCK and requirements.lock pin alike, hashes included; pip then installs
the rest. With --wheel it links what the wheel and the given extras need by their metadata, and what
that needs, and nothing else; it fails if a package that is needed is missing or has another version
than those that are declared. Commands of the packages are not linked.
"""

import argparse
import errno
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"


class UnsatisfiedError(Exception):
    """A declared dependency that the environment does not have."""


def pins(lock: Path) -> set[str]:
    """Returns the pins of a lock, each with its hashes."""
    text = re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.MULTILINE)
    return {pin.strip() for pin in re.split(r"\n(?=\w)", text)}


def pinned_alike(lock: Path, installed: Mapping[str, Distribution]) -> Iterator[Distribution]:
    """Yields the installed packages that a lock pins as requirements.lock does."""
    for pin in pins(lock) & pins(LOCK):
        wanted = Requirement(pin.partition("\\")[0])
        found = installed.get(canonicalize_name(wanted.name))
        if found and wanted.specifier.contains(found.version, prereleases=True):
            yield found


def requirements(package: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """Yields what a package with extras declares to need on this Python and system."""
    for text in package.requires or ():
        needed = Requirement(text)
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield needed


def closure(
    wheel: Distribution, extras: Iterable[str], installed: Mapping[str, Distribution]
) -> list[Distribution]:
    """Returns the installed packages that a wheel needs, directly or by others.

    Args:
      wheel: The wheel; it may need itself, with other extras.
      extras: Its extras that are to work.
      installed: Packages by their canonical names.

    Raises:
      UnsatisfiedError: One is missing, or its version is not among those that are declared.
    """
    known = {**installed, canonicalize_name(wheel.metadata["Name"]): wheel}
    seen, found, left = set(), {}, [(wheel, tuple(extras))]
    while left:
        package, extras = left.pop()
        name = canonicalize_name(package.metadata["Name"])
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if package is not wheel:
            found[name] = package
        for needed in requirements(package, extras):
            other = known.get(canonicalize_name(needed.name))
            if not (other and needed.specifier.contains(other.version, prereleases=True)):
                has = other.version if other else "none"
                raise UnsatisfiedError(f"{name} needs {needed}, but the version here is {has}")
            left.append((other, tuple(sorted(needed.extras))))
    return list(found.values())


def link(package: Distribution, target: Path) -> None:
    """Links the files of a package, and the bytecode beside them, into a site-packages."""
    for file in package.files or ():
        source = Path(str(file.locate()))
        if "bin" in file.parts or "__pycache__" in file.parts:
            continue
        copies = [(source, target / file)]
        if source.suffix == ".py":
            copies.append((Path(cache_from_source(source)), cache_from_source(target / file)))
        for one, other in copies:
            if one.exists():
                link_file(one, Path(other))


def link_file(source: Path, target: Path) -> None:
    """Links a file, or copies it to another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, target)


def main() -> int:
    """Links the packages, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Links packages into another environment.")
    parser.add_argument("venv", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--pins", type=Path, metavar="LOCK")
    what.add_argument("--wheel", type=Path)
    parser.add_argument("--extras", default="", help="of the wheel, with commas")
    given = parser.parse_args()
    here = Path(sysconfig.get_path("purelib"))
    target = given.venv.resolve() / here.relative_to(Path(sys.prefix))
    if not target.is_dir():
        sys.exit(f"{given.venv} has no {here.relative_to(Path(sys.prefix))}: another Python?")
    installed = {
        canonicalize_name(each.metadata["Name"]): each for each in distributions(path=[str(here)])
    }
    if given.pins:
        packages = list(pinned_alike(given.pins, installed))
    else:
        [wheel] = distributions(path=[str(given.wheel)])
        try:
            packages = closure(wheel, filter(None, given.extras.split(",")), installed)
        except UnsatisfiedError as error:
            sys.exit(f"link_packages: {error}")
    for package in packages:
        link(package, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
