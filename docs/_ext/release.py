"""Version of the documented project: as Sphinx's `release`, and in a line on the start page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
TITLE = re.compile(r"^# .*\n", re.MULTILINE)
UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def release_of(root: Path) -> str:
    """Returns the version in the pyproject.toml of a project.

    Raises:
      LookupError: The file names no version.
    """
    found = VERSION.search((root / "pyproject.toml").read_text())
    if not found:
        raise LookupError(f"{root / 'pyproject.toml'} has no line 'version = \"…\"'")
    return found[1]


def version_line(root: Path) -> str:
    """Returns Markdown that names the version, and that there are changes since its release."""
    version = f"Version {release_of(root)}"
    unreleased = UNRELEASED.search((root / "CHANGELOG.md").read_text())
    if unreleased and unreleased[1].strip():
        return f"{version} and [later changes](changelog.md#unreleased)"
    return f"[{version}](changelog.md)"


def add_version(app: Sphinx, page: str, source: list[str]) -> None:
    """Puts the line below the title of the start page."""
    if page == app.config.root_doc:
        line = f"```{{container}} version\n{version_line(ROOT)}\n```\n"
        source[0] = TITLE.sub(lambda title: f"{title[0]}\n{line}", source[0], count=1)


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the line, when a page has the text of the file that it shows."""
    app.connect("source-read", add_version, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
