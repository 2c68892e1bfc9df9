"""Writes the programs of the guides in docs/howto as files, each of which runs as it stands.

    python tools/howto_programs.py FOLDER

The programs of docs/howto/kfac.md become kfac_1.py and kfac_2.py. `try_programs.py` runs them.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ROOT / "docs" / "howto"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def program_names(page: str, count: int) -> list[str]:
    """Returns the file names of a page's programs.

    They are numbered, also if there is one: a `kfac.py` or `profile.py` would hide the module of
    that name from programs in its folder.

    Args:
      page: Name of the page, such as "kfac".
      count: Number of programs in it.
    """
    return [f"{page}_{number}.py" for number in range(1, count + 1)]


def programs_of(text: str, page: str) -> dict[str, str]:
    """Returns the programs in a page's Markdown, by file name."""
    found = PROGRAM.findall(text)
    return dict(zip(program_names(page, len(found)), found, strict=True))


def programs() -> dict[str, str]:
    """Returns the programs of all guides, by file name."""
    pages = sorted(GUIDES.glob("*.md"))
    return {
        name: program
        for page in pages
        for name, program in programs_of(page.read_text(), page.stem).items()
    }


def main(folder: Path) -> None:
    """Writes the programs into a folder, made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in programs().items():
        (folder / name).write_text(program)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python tools/howto_programs.py FOLDER")
    main(Path(sys.argv[1]))
