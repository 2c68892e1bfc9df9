"""Links out of `docs/`: to pages made of the project's other Markdown files, and to source files.

A page of the site whose first line is `{{ file: ../examples/README.md }}` shows that file, and the
rest of its own text below. Links to such a file lead to the page. Links to any other file of the
project lead to a page that shows the file. Links work in the repository and on the site alike.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
SHOWN = re.compile(r"\A\{\{ file: (\S+) \}\}\n(.*)\Z", re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
SCHEME = "repository:"
LINKED = "repository_links"  # In the metadata of a page, which processes that read pages hand over.


@cache
def shown_files() -> dict[Path, str]:
    """Returns the files outside of `docs/` that are shown as pages, and the pages' names."""
    found = {}
    for page in DOCS.rglob("*.md"):
        shown = SHOWN.match(page.read_text())
        if shown:
            file = (page.parent / shown.group(1)).resolve()
            found[file] = page.relative_to(DOCS).with_suffix("").as_posix()
    return found


def rebased(text: str, folder: Path, page: str) -> str:
    """Returns the text of a page with links that work on the site.

    Args:
      text: Markdown whose links are relative to `folder`.
      folder: A folder of the project.
      page: Name of the page, such as "howto/kfac".
    """
    here = (DOCS / page).parent

    def replace(found: re.Match[str]) -> str:
        path, _, anchor = found.group(1).partition("#")
        target = Path(os.path.normpath(folder / path))
        anchor = anchor and f"#{anchor}"
        if not path or ":" in path or not target.exists():
            return found.group(0)
        if target in shown_files():
            target = (DOCS / shown_files()[target]).with_suffix(".md")
        elif not target.is_relative_to(DOCS):
            return f"{SCHEME}{file_of(target)}{anchor}"
        return os.path.relpath(target, here) + anchor

    return LINK.sub(replace, text)


def file_of(target: Path) -> str:
    """Returns the file to show for a path of the project, relative to it."""
    names = ("README.md", "__init__.py", "__main__.py")
    files = [target, *(target / name for name in names)]
    return next(file for file in files if file.is_file()).relative_to(ROOT).as_posix()


def read_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Takes the text of a page from the file that it shows, and rebases its links."""
    folder = (DOCS / page).parent
    shown = SHOWN.match(source[0])
    if shown:
        file = (folder / shown.group(1)).resolve()
        app.env.note_dependency(str(file))
        source[0] = rebased(file.read_text(), file.parent, page) + rebased(shown[2], folder, page)
    else:
        source[0] = rebased(source[0], folder, page)


def resolve_links(app: Sphinx, document: nodes.document, page: str) -> None:
    """Makes the links to source files relative to the page."""
    for link in document.findall(nodes.reference):
        uri = link.get("refuri", "")
        if uri.startswith(SCHEME):
            path, _, anchor = uri.removeprefix(SCHEME).partition("#")
            link["refuri"] = app.builder.get_relative_uri(page, f"source/{path}")
            link["refuri"] += anchor and f"#{anchor}"


def note_links(app: Sphinx, document: nodes.document) -> None:
    """Keeps the source files that a page links to: reading all pages again would take long."""
    uris = {link.get("refuri", "") for link in document.findall(nodes.reference)}
    app.env.metadata[app.env.docname][LINKED] = {
        uri.removeprefix(SCHEME).partition("#")[0] for uri in uris if uri.startswith(SCHEME)
    }


def linked_files(app: Sphinx) -> set[str]:
    """Returns the source files that pages link to."""
    return set().union(*(app.env.metadata[page][LINKED] for page in app.env.found_docs))


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields a page for each source file that is linked."""
    formatter = HtmlFormatter(lineanchors="L", cssclass="highlight")
    for path in sorted(linked_files(app)):
        try:
            lexer = get_lexer_for_filename(path)
        except ClassNotFound:
            lexer = TextLexer()
        body = highlight((ROOT / path).read_text(), lexer, formatter)
        yield f"source/{path}", {"title": path, "body": f"<h1>{path}</h1>\n{body}"}, "page.html"


def setup(app: Sphinx) -> dict[str, int]:
    """Adds the pages and links."""
    app.connect("source-read", read_page)
    app.connect("doctree-read", note_links, priority=900)  # After `linkcode` has made its links.
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-collect-pages", source_pages)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
