"""Checks that the search of a built site finds what users look for, and has excerpts to show.

    python tools/check_search.py docs/_build/html

A query finds the pages that have all of its words, in their text or in a title, by the stems in
the index of Sphinx's search. The lines that the search shows are in `_excerpts`.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Query(NamedTuple):
    """Words that users look for.

    Attributes:
      words: The words.
      stems: Their stems, by the English stemmer of Sphinx.
      page: A page that is to be found.
    """

    words: str
    stems: tuple[str, ...]
    page: str


QUERIES = (
    Query("mixed precision", ("mix", "precis"), "howto/mixed_precision"),
    Query("early stopping", ("earli", "stop"), "howto/early_stopping"),
    Query("OOM", ("oom",), "faq"),
    Query("NaN", ("nan",), "faq"),
    Query("NaN", ("nan",), "howto/your_optimizer"),
    Query("checkpoint", ("checkpoint",), "howto/checkpoints"),
    Query("metrics", ("metric",), "howto/metrics"),
)


def read_index(site: Path) -> dict[str, Any]:
    """Returns the index of Sphinx's search."""
    text = (site / "searchindex.js").read_text()
    return json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))


def pages_with(index: dict[str, Any], stem: str) -> set[str]:
    """Returns the pages that have a word, in their text or in a title."""
    found: set[int] = set()
    for terms in (index["terms"], index["titleterms"]):
        numbers = terms.get(stem, [])
        found |= set(numbers if isinstance(numbers, list) else [numbers])
    return {index["docnames"][number] for number in found}


def texts_of(site: Path, page: str) -> dict[str, str]:
    """Returns the texts of a page that excerpts are taken from, by section."""
    text = (site / "_excerpts" / f"{page}.js").read_text()
    return json.loads(text.partition(", ")[2].rstrip().removesuffix(");"))


def problems(site: Path, queries: tuple[Query, ...] = QUERIES) -> list[str]:
    """Returns a line for each query that does not find its page, and each page without text."""
    index = read_index(site)
    bad = [
        f"{query.words}: does not find {query.page}"
        for query in queries
        if any(query.page not in pages_with(index, stem) for stem in query.stems)
    ]
    for page in index["docnames"]:
        if not (site / "_excerpts" / f"{page}.js").is_file():
            bad.append(f"{page}: has no text for excerpts")
        elif not texts_of(site, page):
            bad.append(f"{page}: the text for excerpts is empty")
    return bad


def main(folder: str) -> int:
    """Prints every problem, and returns the exit code."""
    bad = problems(Path(folder))
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
