"""The programs in docs/ run as they stand, and links of all pages lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINKING = [*PAGES, *sorted(ROOT.glob("*.md")), ROOT / "benchmarks" / "README.md"]
LINKING += sorted((ROOT / "examples").rglob("README.md"))
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
PROGRAMS = [
    pytest.param(program, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, program in enumerate(PROGRAM.findall(page.read_text()))
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_runs(program, tmp_path, run_python):
    done = run_python(program, folder=tmp_path, quick=True)
    assert done.code == 0, done.err


def anchors(page):
    """Returns the anchors of a page, by GitHub's rule for headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not link.startswith("http"):
            target, _, anchor = link.partition("#")
            linked = page.parent / target if target else page
            assert linked.exists(), link
            assert not anchor or anchor in anchors(linked), link
