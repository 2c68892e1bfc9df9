"""Links below the title of a notebook's page: the notebook with its outputs, and its program."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes as docutils_nodes
    from sphinx.application import Sphinx

FOLDER = "_downloads"
LINKS = (
    '<p class="downloads">Download: <a href="../{folder}/{name}.ipynb" download>{name}.ipynb</a>'
    ' with the outputs below, <a href="../{folder}/{name}.py" download>{name}.py</a></p>'
)


def cleaned(notebook: dict[str, Any]) -> dict[str, Any]:
    """Returns a notebook without the lines on stderr, in which TensorFlow tells of its start."""
    cells = [
        {
            **cell,
            "outputs": [output for output in cell["outputs"] if output.get("name") != "stderr"],
        }
        if "outputs" in cell
        else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def write(source: Path, notebook: dict[str, Any], folder: Path) -> None:
    """Writes the files of one notebook.

    Args:
      source: Its program.
      notebook: The same with its outputs.
      folder: Where the files are put.
    """
    folder.mkdir(exist_ok=True)
    shutil.copyfile(source, folder / source.name)
    text = json.dumps(cleaned(notebook), ensure_ascii=False, indent=1)
    (folder / f"{source.stem}.ipynb").write_text(f"{text}\n")


def add_links(app: Sphinx, document: docutils_nodes.document) -> None:
    """Puts the links below the title of a notebook's page."""
    from docutils import nodes  # noqa: PLC0415  Here: the tests of the files do not have it.

    folder, _, name = app.env.docname.rpartition("/")
    if folder == "notebooks":
        title = next(iter(document.findall(nodes.title)))
        links = nodes.raw("", LINKS.format(folder=FOLDER, name=name), format="html")
        title.parent.insert(title.parent.index(title) + 1, links)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Writes the files of all notebooks."""
    from executed import executed_notebook  # noqa: PLC0415

    if error is None:
        for source in Path(app.srcdir, "notebooks").glob("*.py"):
            write(source, executed_notebook(app, source.stem), Path(app.outdir, FOLDER))


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the links, and the files at the end."""
    app.connect("doctree-read", add_links)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
