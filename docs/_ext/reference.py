"""Directives `{public}` and `{public-module}` of the reference, see `public_names`."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from public_names import ROOT, Definition, chosen_names, module_names, short_name
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Public(SphinxDirective):
    """Documents the names of a package that come from the modules in the content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Returns the documentation of the names."""
        package = self.arguments[0]
        chosen = chosen_names(package, list(self.content))
        return parsed_rst(self, lines_of_names(package, chosen))


class PublicModule(SphinxDirective):
    """Documents a module and its names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the documentation of the module and of its names."""
        module = self.arguments[0]
        lines = [f".. automodule:: {module}", "   :no-members:", ""]
        return parsed_rst(self, [*lines, *lines_of_names(module, module_names(module))])


def parsed_rst(directive: SphinxDirective, lines: list[str]) -> list[nodes.Node]:
    """Returns the nodes of reStructuredText inside of a page in Markdown."""
    parent = nodes.container()
    text = ["```{eval-rst}", *lines, "```"]
    directive.state.nested_parse(StringList(text), directive.content_offset, parent)
    return parent.children


def lines_of_names(place: str, names: dict[str, Definition]) -> list[str]:
    """Returns reStructuredText that documents the names of a package or module."""
    lines = []
    for name, found in names.items():
        lines += [*lines_of_name(f"{place}.{name}", found), ""]
    return lines


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
        if full_name.count(".") > 1:
            yield ""
            yield f"- ``{full_name.rpartition('.')[2]}`` is :py:obj:`{first}`."
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
    elif found.kind == "class":
        yield f".. autoclass:: {full_name}"
        yield "   :members:"
    elif found.kind == "function":
        yield f".. autofunction:: {full_name}"


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
    app.connect("autodoc-skip-member", skips)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
