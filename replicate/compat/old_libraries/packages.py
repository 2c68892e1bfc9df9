"""pkg_resources, which setuptools dropped: versions of packages, and the files in them."""

import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from replicate.compat.old_libraries.versions import LooseVersion

_REQUIREMENT = re.compile(r"\s*([\w.\-]+)\s*(?:\[[^\]]*\])?\s*(.*)")
_COMPARISON = re.compile(r"(==|!=|>=|<=|>|<|~=)\s*([\w.\-+*]+)")


class ResolutionError(Exception):
    """A package is not there as it must be."""


class DistributionNotFound(ResolutionError):  # noqa: N818  # The name in pkg_resources.
    """A package is not installed."""


class VersionConflict(ResolutionError):  # noqa: N818
    """A package is installed in another version."""


class Distribution:
    """A package that is installed.

    Attributes:
      project_name: Its name.
      key: Its name in small letters.
      version: Its version.
      location: The folder that it is in.
    """

    def __init__(self, found: importlib.metadata.Distribution) -> None:
        """Reads what is installed."""
        self.project_name = str(found.metadata["Name"])
        self.key = self.project_name.lower()
        self.version = found.version
        self.location = str(found.locate_file(""))
        self._found = found

    @property
    def parsed_version(self) -> LooseVersion:
        """The version, to compare it with others."""
        return parse_version(self.version)

    def __str__(self) -> str:
        return f"{self.project_name} {self.version}"


def parse_version(v: str) -> LooseVersion:
    """Returns a version that can be compared with others."""
    return LooseVersion(v)


def get_distribution(dist: Any) -> Distribution:
    """Returns a package by its name, or by a requirement such as "numpy>=1.2".

    Raises:
      DistributionNotFound: It is not installed.
      VersionConflict: Its version is another one.
    """
    found = _REQUIREMENT.match(str(dist))
    name, wanted = (found[1], found[2]) if found is not None else (str(dist), "")
    try:
        package = Distribution(importlib.metadata.distribution(name))
    except importlib.metadata.PackageNotFoundError:
        raise DistributionNotFound(f"The package {name!r} is not installed.") from None
    for comparison, version in _COMPARISON.findall(wanted):
        if not _fits(package.parsed_version, comparison, version):
            raise VersionConflict(f"{package} is installed, and {dist} is needed.")
    return package


def _fits(installed: LooseVersion, comparison: str, version: str) -> bool:
    wanted = LooseVersion(version.rstrip(".*"))
    length = len(wanted.version)
    if comparison == "~=":
        start = wanted.version[:-1]
        return installed >= wanted and installed.version[: len(start)] == start
    if version.endswith("*"):
        is_same = installed.version[:length] == wanted.version
        return is_same if comparison == "==" else not is_same
    return {
        "==": installed == wanted,
        "!=": installed != wanted,
        ">=": installed >= wanted,
        "<=": installed <= wanted,
        ">": installed > wanted,
        "<": installed < wanted,
    }[comparison]


def require(*requirements: Any) -> list[Distribution]:
    """Returns the packages of requirements; errors as for `get_distribution`."""
    flat = [
        each
        for given in requirements
        for each in ([given] if isinstance(given, str) else list(given))
    ]
    return [get_distribution(each) for each in flat]


def iter_entry_points(group: str, name: str | None = None) -> Iterator[Any]:
    """Yields the entry points of a group."""
    for each in importlib.metadata.entry_points(group=group):
        if name is None or each.name == name:
            yield each


def _place(package_or_requirement: Any, resource_name: str) -> str:
    """Returns the path of a file in a package."""
    name = str(package_or_requirement)
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        folders: Iterable[str] = spec.submodule_search_locations or ()
        file = spec.origin or os.path.join(next(iter(folders)), "__init__.py")
    return os.path.join(os.path.dirname(os.path.abspath(file)), *resource_name.split("/"))


def resource_filename(package_or_requirement: Any, resource_name: str) -> str:
    """Returns the path of a file in a package."""
    return _place(package_or_requirement, resource_name)


def resource_string(package_or_requirement: Any, resource_name: str) -> bytes:
    """Returns the bytes of a file in a package."""
    with open(_place(package_or_requirement, resource_name), "rb") as file:
        return file.read()


def resource_stream(package_or_requirement: Any, resource_name: str) -> Any:
    """Opens a file in a package, for bytes."""
    return open(_place(package_or_requirement, resource_name), "rb")


def resource_exists(package_or_requirement: Any, resource_name: str) -> bool:
    """Returns True if a file or a folder is in a package."""
    return os.path.exists(_place(package_or_requirement, resource_name))


def resource_isdir(package_or_requirement: Any, resource_name: str) -> bool:
    """Returns True if a folder is in a package."""
    return os.path.isdir(_place(package_or_requirement, resource_name))


def resource_listdir(package_or_requirement: Any, resource_name: str) -> list[str]:
    """Returns the names in a folder of a package."""
    return os.listdir(_place(package_or_requirement, resource_name))


def declare_namespace(packageName: str) -> None:  # The name in pkg_resources.
    """Does nothing: Python finds packages in several folders by itself."""


def __getattr__(name: str) -> Any:
    if name == "working_set":
        return [Distribution(each) for each in importlib.metadata.distributions()]
    raise AttributeError(f"module 'pkg_resources' has no attribute {name!r}")
