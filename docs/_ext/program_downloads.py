"""A file beside each program of a guide: `howto/programs/kfac_1.py`, linked below the program.

`tools/howto_programs.py` collects the programs from the pages.
"""

from docutils import nodes
from sphinx.application import Sphinx

from tools import howto_programs

FOLDER = "programs"
GUIDES = "howto/"
LINK = '<p class="downloads">Download: <a href="{folder}/{name}" download>{name}</a></p>'


def add_links(app: Sphinx, document: nodes.document, page: str) -> None:
    """Adds a link to its file below each program of a guide."""
    if app.builder.format != "html" or not page.startswith(GUIDES):
        return
    text = app.env.doc2path(page).read_text()
    programs = howto_programs.programs_of(text, page.removeprefix(GUIDES))
    names = {program.strip(): name for name, program in programs.items()}
    for block in list(document.findall(nodes.literal_block)):
        name = names.get(block.astext().strip())
        if name is not None:
            html = LINK.format(folder=FOLDER, name=name)
            block.parent.insert(block.parent.index(block) + 1, nodes.raw("", html, format="html"))


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Writes the files."""
    if error is None and app.builder.format == "html":
        howto_programs.main(app.outdir / GUIDES / FOLDER)


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the links and files."""
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
