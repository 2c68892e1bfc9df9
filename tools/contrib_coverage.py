"""Prints which share of the uses of old names finds something usable in replicate.compat.

    python tools/contrib_coverage.py NAMES.md [--absent]

NAMES.md has sections such as "## tf.contrib", "## tf.estimator" and "## slim (…)". They list names
with their numbers of uses: `layers.conv2d` 11/4, where the number after the stroke is left out of
account. A name counts as usable if it leads to something that is not an absent name. Names of
packages alone count for nothing: they count by what is used of them. "Left out … `contrib.gan` …"
in front of the sections names packages that are not counted. --absent lists what is missing.
"""

import argparse
import collections
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from replicate.compat.absent import OldNameError, is_absent
from replicate.compat.old_modules import old_module

SECTION = re.compile(r"^## (?P<package>tf\.contrib|tf\.estimator|slim)\b.*$", re.MULTILINE)
NAME = re.compile(r"`(?P<name>[\w.]+)` (?P<uses>\d+)/\d+")
LEFT_OUT = re.compile(r"`contrib\.(\w+)`")


class Use(NamedTuple):
    """A name and how often it is used."""

    package: str
    name: str
    uses: int


def read(text: str) -> Iterator[Use]:
    """Returns the names of a list, without those that it leaves out."""
    head, *rest = SECTION.split(text)
    left_out = set(LEFT_OUT.findall(head))
    for package, body in zip(rest[::2], rest[1::2], strict=True):
        full = "tf.contrib.slim" if package == "slim" else package
        section = body.partition("\n## ")[0]
        for found in NAME.finditer(section):
            if package != "tf.contrib" or found["name"].partition(".")[0] not in left_out:
                yield Use(full, found["name"], int(found["uses"]))


def value_of(package: str, name: str) -> object:
    """Returns what a name leads to, None if it is not there."""
    value: object = old_module(package, "replicate.v1")
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except (AttributeError, OldNameError):
            return None
    return None if is_absent(value) else value


def main() -> None:
    """Prints one line per section and package, and the whole."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", type=Path, help="the list of names")
    parser.add_argument("--absent", action="store_true", help="list the names that are not there")
    arguments = parser.parse_args()
    there: collections.Counter[str] = collections.Counter()
    all_uses: collections.Counter[str] = collections.Counter()
    absent = []
    for use in read(arguments.names.read_text()):
        value = value_of(use.package, use.name)
        if isinstance(value, types.ModuleType) or use.name.endswith("python"):
            continue
        first, dot, _ = use.name.partition(".")
        is_below = use.package == "tf.contrib" and dot
        for group in (use.package, f"{use.package}.{first}" if is_below else None, "all"):
            if group is not None:
                all_uses[group] += use.uses
                there[group] += use.uses if value is not None else 0
        if value is None:
            absent.append(use)
    for group in sorted(all_uses, key=lambda each: (each == "all", each)):
        share = there[group] / all_uses[group]
        print(f"{group:32} {there[group]:5} of {all_uses[group]:5} uses  {share:7.1%}")
    if arguments.absent:
        for use in sorted(absent, key=lambda each: -each.uses):
            print(f"  {use.package}.{use.name}  {use.uses}")


if __name__ == "__main__":
    main()
