"""Version of this project: that of the source tree, or of the distribution that is installed."""

import re
from pathlib import Path

DISTRIBUTION = "replicate-model-fn"
"""Name of the distribution that holds `replicate`, `kfac` and `model_deploy`."""

_FIELD = r'^{} = "(.*)"$'


def version() -> str:
    """Returns the version in pyproject.toml beside the packages, else that which is installed.

    A source tree need not be installed. "unknown" is the version of a copy of the packages alone.
    """
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    text = project.read_text(encoding="utf-8") if project.is_file() else ""
    name, found = (_field(each, text) for each in ("name", "version"))
    if name == DISTRIBUTION and found:
        return found
    from importlib import metadata  # noqa: PLC0415  # It is slow to load.

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def _field(name: str, text: str) -> str:
    found = re.search(_FIELD.format(name), text, re.MULTILINE)
    return found[1] if found is not None else ""
