"""Directive `{gallery}`: a card with a picture for each example program and each notebook.

The programs are the rows of the first table of `examples/README.md`, and the notebooks the files of
`docs/notebooks`. `thumbnails` draws the pictures when the pages are written, since the notebooks
must have run by then.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "README.md"
NOTEBOOKS = ROOT / "docs" / "notebooks"
FOLDER = "_images/gallery"  # Of the pictures, below the site's folder.

ROW = re.compile(r"^\| \[(\w+)\]\(([^)]+)\) \| ([^|]+) \|", re.MULTILINE)
FILE = re.compile(r"\[([\w.]+\.py)\]\(([^)]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


class Card(NamedTuple):
    """An example in the gallery.

    Attributes:
      name: Its name, also that of its picture.
      title: Heading of the card.
      text: Sentence or two about it, in Markdown.
      page: Page about it, such as "start/examples.html#mlp".
      file: Page of its source file, such as "source/examples/mlp.py.html", or "".
      picture: A picture that the project has of it, or None.
      lines: Its printed lines, as its page shows them.
    """

    name: str
    title: str
    text: str
    page: str
    file: str
    picture: Path | None = None
    lines: tuple[str, ...] = ()


def section_of(text: str, heading: str) -> str:
    """Returns the text below a heading of the second level.

    Raises:
      LookupError: There is no such heading.
    """
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if not found:
        raise LookupError(f"{PROGRAMS.name} has no heading '## {heading}'")
    return found[1]


def program_cards() -> Iterator[Card]:
    """Yields a card for each row of the table of programs."""
    readme = PROGRAMS.read_text()
    for name, link, text in ROW.findall(readme):
        if link.startswith("#"):
            folder, about, page = PROGRAMS.parent, section_of(readme, name), f"examples.html{link}"
        else:
            file = PROGRAMS.parent / link
            folder, about, page = file.parent, file.read_text(), f"{name}_examples.html"
        source = FILE.search(about)
        picture, printed = IMAGE.search(about), BLOCK.search(about)
        yield Card(
            name,
            name.replace("_", " "),
            text,
            f"start/{page}",
            f"source/{relative(folder / source[2])}.html" if source else "",
            Path(os.path.normpath(folder / picture[1])) if picture else None,
            tuple(printed[1].splitlines()) if printed else (),
        )


def relative(path: Path) -> str:
    """Returns a path below the project's folder, relative to it."""
    return os.path.relpath(path, ROOT)


def notebook_cards() -> Iterator[Card]:
    """Yields a card for each notebook: its title and the first paragraph below it."""
    for file in sorted(NOTEBOOKS.glob("*.py")):
        comment = file.read_text().partition("\n# %%\n")[0].splitlines()
        title, *text = [
            line.removeprefix("#").strip() for line in comment if line != "# %% [markdown]"
        ]
        yield Card(
            file.stem,
            title.removeprefix("# "),
            " ".join(text).strip().partition(". ")[0].removesuffix(".") + ".",
            f"notebooks/{file.stem}.html",
            f"_downloads/{file.stem}.ipynb",
        )


def cards() -> list[Card]:
    """Returns the cards of all notebooks and programs."""
    return [*notebook_cards(), *program_cards()]


def card_html(card: Card, up: str) -> str:
    """Returns a card as HTML.

    Args:
      card: The card.
      up: Relative path to the site's folder, "" or ending with "/".
    """
    text = CODE.sub(r"<code>\1</code>", html.escape(card.text, quote=False))
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    file = f"<code>{Path(card.file).name.removesuffix('.html')}</code>"
    source = f'<a class="file" href="{up}{card.file}">{file}</a>' if card.file else ""
    return (
        f'<div class="card"><a href="{up}{card.page}">'
        f'<img src="{up}{FOLDER}/{card.name}.png" alt="" loading="lazy" width="480" height="300">'
        f"<strong>{html.escape(card.title)}</strong></a><p>{text}</p>{source}</div>"
    )


def gallery_html(page: str) -> str:
    """Returns all cards as HTML, with links from the page named `page`."""
    up = "../" * page.count("/")
    body = "\n".join(card_html(card, up) for card in cards())
    return f'<div class="gallery">\n{body}\n</div>'


def setup(app: Any) -> dict[str, bool]:
    """Adds the directive, and has the pictures drawn at the end."""
    from docutils import nodes  # noqa: PLC0415  Here: the tests of the cards do not have it.
    from executed import executed_notebook  # noqa: PLC0415
    from sphinx.util.docutils import SphinxDirective  # noqa: PLC0415
    from thumbnails import draw  # noqa: PLC0415

    class Gallery(SphinxDirective):
        """Shows the cards."""

        def run(self) -> list[nodes.Node]:
            """Returns the gallery, and tells Sphinx which files it shows."""
            for file in (PROGRAMS, *NOTEBOOKS.glob("*.py")):
                self.env.note_dependency(str(file))
            return [nodes.raw("", gallery_html(self.env.docname), format="html")]

    def finish(app: Any, error: Exception | None) -> None:
        if error is None:
            for card in cards():
                is_notebook = card.page.startswith("notebooks/")
                notebook = executed_notebook(app, card.name) if is_notebook else None
                draw(card, notebook, Path(app.outdir) / FOLDER / f"{card.name}.png")

    app.add_directive("gallery", Gallery)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
