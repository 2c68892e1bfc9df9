"""Texts of the pages for the search's results, which shows the lines where the words stand.

Sphinx's search would fetch the pages that it found, which browsers refuse when a site is opened
from its files. Here each page has a small script in `_excerpts/` that hands over its text, and the
search loads the scripts of the results in view: `_static/excerpts.js`.
"""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

FOLDER = "_excerpts"
SKIPPED = {"button", "dt", "h1", "math", "script", "style", "svg"}
HEADINGS = {"h2", "h3", "h4", "h5", "h6"}
INLINE = {"a", "abbr", "b", "code", "em", "i", "kbd", "mark", "span", "strong", "sub", "sup"}


class Texts(HTMLParser):
    """Text of a page by sections, without its title and signatures.

    Attributes:
      parts: Pieces of text for each anchor of a section or of a documented name, "" for the text
        before the first one.
    """

    def __init__(self, body: str) -> None:
        """Reads the page.

        Args:
          body: HTML of its content.
        """
        super().__init__()
        self.parts: dict[str, list[str]] = {"": []}
        self._anchor = ""
        self._skipped = 0
        self._in_mark = False  # Inside of the link that a heading ends with.
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a section, or a part without text."""
        given = dict(attrs)
        if given.get("id") and (tag == "section" or (tag == "dt" and not self._skipped)):
            self._anchor = str(given["id"])
            self.parts.setdefault(self._anchor, [])
        self._skipped += tag in SKIPPED
        self._in_mark = tag == "a" and "headerlink" in (given.get("class") or "")
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        """Ends a part without text."""
        self._skipped -= tag in SKIPPED
        self._in_mark = False
        if tag in HEADINGS:
            self.parts[self._anchor].append(" – ")
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        """Keeps text."""
        if not self._skipped and not self._in_mark:
            self.parts[self._anchor].append(data)

    def _separate(self, tag: str) -> None:
        if tag not in INLINE:
            self.parts[self._anchor].append(" ")


def texts_of(body: str) -> dict[str, str]:
    """Returns the text of each section of a page that has any, by the section's anchor."""
    joined = {anchor: " ".join("".join(t).split()) for anchor, t in Texts(body).parts.items()}
    return {anchor: text for anchor, text in joined.items() if text}


def script_of(page: str, body: str) -> str:
    """Returns the script that hands over the text of a page."""
    return f"pageTexts({json.dumps(page)}, {json.dumps(texts_of(body), ensure_ascii=False)});\n"


def write(
    app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    """Writes the script of a page; the page of the search gets the reader of the scripts."""
    if page == "search":
        app.add_js_file("excerpts.js", defer="defer")
    elif document is not None:
        path = Path(app.outdir, FOLDER, f"{page}.js")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script_of(page, context["body"]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the scripts beside the pages."""
    app.connect("html-page-context", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
