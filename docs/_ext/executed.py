"""The notebooks with the outputs that the pages show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def executed_notebook(app: Sphinx, name: str) -> dict[str, Any]:
    """Returns an executed notebook of `docs/notebooks`, when all pages have been read."""
    import nbformat  # noqa: PLC0415  Here and below: the tests of the other parts do not have it.
    from jupyter_cache import get_cache  # noqa: PLC0415

    settings = app.env.mystnb_config
    path = Path(settings.output_folder, "notebooks", f"{name}.ipynb")
    notebook = nbformat.reads(path.read_text(), as_version=4)
    if settings.execution_mode == "cache":  # Its outputs are in the cache only.
        cache = get_cache(settings.execution_cache_path)
        _, notebook = cache.merge_match_into_notebook(notebook)
    return notebook
