"""Directives `{public}` and `{public-module}` of the reference, see `public_names`.

Both show a table of the names, each with its first sentence, and the functions and values below it.
A class has a page of its own, which `write_class_pages` makes. The row of a class has the anchors
that its documentation has, so that links to them lead to the row, and from there to the page.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docstrings import with_code
from docutils import nodes
from docutils.statemachine import StringList
from public_names import (
    PACKAGES,
    PAGES,
    ROOT,
    Definition,
    chosen_names,
    class_pages,
    first_sentence,
    has_own_page,
    module_names,
    short_name,
)
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CLASSES = PAGES / "api"  # Their pages; git ignores them.
OF_SOURCES: dict[int, str] = {}  # Navigation of pages of source files, by the depth of the folder.
# A class's page and its navigation, by the link to the page of the reference that lists the class.
OF_CLASSES: dict[str, tuple[str, str]] = {}
CLASS_PAGE = """{title}
{line}

:doc:`Reference </reference/index>` / :doc:`/reference/{page}`

.. autoclass:: {name}
   :members:
{inherited}"""


class Public(SphinxDirective):
    """Documents the names of a package that come from the modules in the content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Returns the documentation of the names."""
        package = self.arguments[0]
        chosen = chosen_names(package, list(self.content))
        return documented(self, package, chosen)


class PublicModule(SphinxDirective):
    """Documents a module and its names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the documentation of the module and of its names."""
        module = self.arguments[0]
        about = parsed_rst(self, [f".. automodule:: {module}", "   :no-members:"])
        return [*about, *documented(self, module, module_names(module))]


def parsed_rst(directive: SphinxDirective, lines: list[str]) -> list[nodes.Node]:
    """Returns the nodes of reStructuredText inside of a page in Markdown."""
    parent = nodes.container()
    text = ["```{eval-rst}", *lines, "```"]
    directive.state.nested_parse(StringList(text), directive.content_offset, parent)
    return parent.children


def documented(
    directive: SphinxDirective, place: str, names: dict[str, Definition]
) -> list[nodes.Node]:
    """Returns the table of the names of a package or module, and their documentation.

    The pages of classes become parts of the page in the site's navigation.
    """
    full_names = {f"{place}.{name}": found for name, found in names.items()}
    if not full_names:
        return []
    table = parsed_rst(directive, list(lines_of_table(full_names)))
    for row in (row for node in table for row in node.findall(nodes.row)):
        for link in row.findall(addnodes.pending_xref):
            if link["reftarget"] in full_names and has_own_page(
                link["reftarget"], full_names[link["reftarget"]]
            ):
                link.parent["ids"].append(link["reftarget"])
                link.parent["class_name"] = link["reftarget"]
    lines = [".. toctree::", "   :hidden:", ""]
    lines += [
        f"   /reference/api/{name}" for name in full_names if has_own_page(name, full_names[name])
    ]
    for full_name, found in full_names.items():
        if not has_own_page(full_name, found):
            lines += ["", *lines_of_name(full_name, found)]
    return [*table, *parsed_rst(directive, lines)]


def lines_of_table(names: dict[str, Definition]) -> Iterator[str]:
    """Yields reStructuredText of a table of names with their first sentences."""
    yield from (".. list-table::", "   :class: summary", "   :widths: auto", "")
    for full_name, found in names.items():
        name = full_name.rpartition(".")[2] + ("()" if found.kind == "function" else "")
        yield f"   * - :py:obj:`{name} <{full_name}>`"
        yield f"     - {summary_of(full_name, found)}"


def summary_of(full_name: str, found: Definition) -> str:
    """Returns a sentence about a name, in reStructuredText."""
    first = short_name(found)
    if first not in (None, full_name):
        return f"The same as :py:obj:`{first}`."
    if found.value.startswith("v1."):
        return f"TensorFlow's ``tf.compat.{found.value}``."
    return with_code(first_sentence(found.doc))


def lines_of_name(full_name: str, found: Definition) -> Iterator[str]:
    """Yields reStructuredText that documents one name.

    A name that is in several places is documented once, and the other places refer to it.
    """
    first = short_name(found)
    if first not in (None, full_name):
        yield f".. py:data:: {full_name}"
        yield "   :no-typesetting:" if full_name.count(".") > 1 else ""
        yield ""
        yield f"   The same as :py:obj:`{first}`."
    elif found.kind == "data":
        value = getattr(importlib.import_module(found.module), found.name)
        yield f".. py:data:: {full_name}"
        if found.value.startswith("v1."):
            yield ""
            kind = "class" if inspect.isclass(value) else "function"
            yield f"   The {kind} ``tf.compat.{found.value}``."
        else:
            yield f"   :value: {value!r}"
            yield ""
            yield from (f"   {line}" for line in found.doc.splitlines())
    elif found.kind == "function":
        yield f".. autofunction:: {full_name}"


def write_class_pages(app: Sphinx) -> None:
    """Writes a page for each class, and removes those of classes that are gone."""
    CLASSES.mkdir(exist_ok=True)
    pages_of_classes = class_pages()
    shown = set(map(class_named, pages_of_classes))
    pages = {
        CLASSES / f"{name}.rst": CLASS_PAGE.format(
            title=name.rpartition(".")[2],
            line="=" * len(name),
            name=name,
            page=page,
            inherited=inherited_option(name, shown),
        )
        for name, page in pages_of_classes.items()
    }
    for path in set(CLASSES.glob("*.rst")) - set(pages):
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def inherited_option(name: str, shown: set[type]) -> str:
    """Returns the option that shows what a class inherits from bases that no page shows.

    Args:
      name: Full name of the class.
      shown: The classes that have a page.
    """
    bases = class_named(name).__mro__[1:]
    ours = [base for base in bases if base.__module__.partition(".")[0] in PACKAGES]
    hidden = [base for base in ours if base not in shown]
    if not hidden:
        return ""
    others = [base.__name__ for base in bases if base not in hidden]
    return f"   :inherited-members: {', '.join(others)}\n"


def class_named(name: str) -> type:
    """Returns the class that a page is about."""
    module, _, name = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), name)
    return found


def add_anchors_of_members(app: Sphinx, document: nodes.document, page: str) -> None:
    """Gives the rows of classes the anchors of their methods and attributes."""
    if page.startswith("reference/"):
        listed = [node for node in document.findall(nodes.paragraph) if node.get("class_name")]
        members = sorted(app.env.domains["py"].objects) if listed else []
        for row in listed:
            row["ids"] += [name for name in members if name.startswith(f"{row['class_name']}.")]


def shorten_navigation(
    app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    """Leaves the classes out of the navigation of pages outside of the reference.

    For pages of classes it is made in a quicker way.

    Pages of source files are no part of it: it is the same for all that are in folders of one
    depth, and takes longer than the rest of such a page.
    """
    full = context.get("toctree")
    if full and page.startswith("reference/api/"):
        listed_on = context["parents"][-1]["link"]
        context["toctree"] = lambda **options: navigation_of_class(page, listed_on, full, options)
    if not full or page.startswith("reference/"):
        return

    def short(**options: Any) -> str:
        if not page.startswith("source/"):
            return full(**{**options, "maxdepth": 2})
        depth = page.count("/")
        if depth not in OF_SOURCES:
            OF_SOURCES[depth] = full(**{**options, "maxdepth": 2})
        return OF_SOURCES[depth]

    context["toctree"] = short


def navigation_of_class(
    page: str, listed_on: str, full: Callable[..., str], options: dict[str, Any]
) -> str:
    """Returns the navigation of a class's page.

    It is that of another class of the same page of the reference, with the mark at another entry:
    to make it anew takes longer than the rest of the page.
    """
    if listed_on not in OF_CLASSES:
        OF_CLASSES[listed_on] = page, full(**options)
    first, text = OF_CLASSES[listed_on]
    for name, is_marked in ((first, True), (page, False)):
        entry = entry_of_class(name, is_marked=is_marked)
        if text.count(entry) != 1:
            return full(**options)
        text = text.replace(entry, entry_of_class(name, is_marked=not is_marked))
    return text


def entry_of_class(page: str, *, is_marked: bool) -> str:
    """Returns the beginning of the entry that the navigation of class pages has for one of them."""
    name = page.rpartition("/")[2]
    title = name.rpartition(".")[2]
    if is_marked:
        return (
            '<li class="toctree-l3 current">'
            f'<a class="current reference internal" href="#">{title}</a>'
        )
    return f'<li class="toctree-l3"><a class="reference internal" href="{name}.html">{title}</a>'


def skips(app: Sphinx, kind: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leaves out the fields of named tuples: the class docstring describes them."""
    return True if type(value).__name__ == "_tuplegetter" else None


def source_of(module: str, name: str) -> str | None:
    """Returns a link to the source of a documented object: a file of the project and a line."""
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    value = inspect.unwrap(getattr(value, "fget", None) or value)
    try:
        file, line = inspect.getsourcefile(value), inspect.getsourcelines(value)[1]
    except (TypeError, OSError):
        return None
    if file is None or not Path(file).is_relative_to(ROOT):
        return None
    return f"repository:{Path(file).relative_to(ROOT).as_posix()}#L-{max(line, 1)}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directives."""
    app.add_directive("public", Public)
    app.add_directive("public-module", PublicModule)
    app.connect("builder-inited", write_class_pages)
    app.connect("doctree-resolved", add_anchors_of_members)
    app.connect("html-page-context", shorten_navigation, priority=100)
    app.connect("autodoc-skip-member", skips)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
