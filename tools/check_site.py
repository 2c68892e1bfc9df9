"""Checks that all links of a built site lead somewhere, without network.

    python tools/check_site.py docs/_build/html

A link inside of the site must lead to a file there, and its anchor to an `id` in that file. Links
to other sites are checked for their form only. Scripts, styles, fonts and pictures must be in the
site itself, so that it works offline.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LOADED = {"img", "link", "script", "source"}


class Link(NamedTuple):
    """A link of a page.

    Attributes:
      target: Its URL.
      loads: True if the browser loads the target together with the page.
    """

    target: str
    loads: bool


class Page(HTMLParser):
    """Links and ids of a page."""

    def __init__(self, path: Path) -> None:
        """Reads the page.

        Args:
          path: File of the page.
        """
        super().__init__()
        self.links: list[Link] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the ids and links of a tag."""
        given = dict(attrs)
        self.ids.update(filter(None, [given.get("id"), given.get("name")]))
        if given.get("rel") in ("canonical", "next", "prev"):
            return
        for name in ("href", "src"):
            target = given.get(name)
            if target:
                self.links.append(Link(target, tag in LOADED))


@cache
def target_of(path: str, folder: Path, site: Path) -> Path | None:
    """Returns the file that a path leads to from a folder's pages, or None if the site has none."""
    target = (folder / unquote(path)).resolve()
    return target if target.is_file() and target.is_relative_to(site) else None


def problem(link: Link, path: Path, site: Path, pages: dict[Path, Page]) -> str:
    """Returns what is wrong with a link of the page at `path`, or "" if nothing is."""
    url = urlsplit(link.target)
    if url.scheme in ("data", "mailto"):
        return ""
    if url.scheme or url.netloc:
        if link.loads:
            return "is loaded from another site"
        is_well_formed = url.scheme in ("http", "https") and "." in url.netloc
        return "" if is_well_formed else "is no address of another site"
    target = target_of(url.path, path.parent, site) if url.path else path
    if target is None:
        return "leads to no file"
    if url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
        return "leads to no such place in the page"
    return ""


def main(folder: str) -> int:
    """Prints every bad link, and returns the exit code."""
    site = Path(folder).resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    bad = {
        f"{path.relative_to(site)}: {link.target} {wrong}"
        for path, page in pages.items()
        for link in page.links
        if (wrong := problem(link, path, site, pages))
    }
    for line in sorted(bad):
        print(line, file=sys.stderr)
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links")
    return 1 if bad or not pages else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
