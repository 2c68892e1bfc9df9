"""Public names of the packages, and the names that the reference documents, read from sources.

Neither Sphinx nor the packages are loaded. `reference` makes the pages of the site. Two directives
of the reference's pages say what is where:

- `{public} PACKAGE` documents the names of a package that come from the modules in its content,
  one a line, or from modules inside these.
- `{public-module} MODULE` documents a public module and its names.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("replicate", "model_deploy", "kfac")
PAGES = ROOT / "docs" / "reference"
DIRECTIVE = re.compile(r"^```\{(public|public-module)\} (\S+)\n(.*?)```$", re.DOTALL | re.MULTILINE)
# Up to a full stop that ends a sentence: not that of "e.g." or "i.e.".
SENTENCE = re.compile(r".*?(?<!\be\.g)(?<!\bi\.e)(\.(?=\s|$)|:?$)")


class Definition(NamedTuple):
    """Place where a public name is defined.

    Attributes:
      module: Full name of the module.
      name: Name in that module; "" if the name is the module itself.
      kind: "class", "function", "module", or "data" for any other value.
      doc: Its docstring, or "".
      value: Source of the value that an assignment gives it, or "".
    """

    module: str
    name: str
    kind: str
    doc: str
    value: str = ""


@cache
def parsed(module: str) -> ast.Module | None:
    """Returns the syntax tree of a module of the project, or None if it is no module."""
    path = ROOT.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return ast.parse(file.read_text())
    return None


def assigned_names(node: ast.stmt) -> list[str]:
    """Returns the names that an assignment at the top of a module gives values to."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def statements(tree: ast.Module | None) -> list[ast.stmt]:
    """Returns the statements of a module, also those for type checkers only."""
    body = tree.body if tree else []
    return [inner for node in body for inner in (node.body if isinstance(node, ast.If) else [node])]


def definition(module: str, name: str) -> Definition:
    """Finds where a name of a module is defined, through any number of imports.

    Raises:
      LookupError: The module neither defines nor imports the name.
    """
    body = statements(parsed(module))
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            return Definition(module, name, kind, ast.get_docstring(node) or "")
        if name in assigned_names(node):
            value = node.value
            if isinstance(value, ast.Name):
                return definition(module, value.id)
            return Definition(module, name, "data", literal(after), ast.unparse(value))
        if isinstance(node, ast.ImportFrom) and node.module not in (None, module):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return definition(node.module, alias.name)
    tree = parsed(f"{module}.{name}")
    if tree:
        return Definition(f"{module}.{name}", "", "module", ast.get_docstring(tree) or "")
    raise LookupError(f"{module} has no name {name}")


def literal(node: ast.stmt | None) -> str:
    """Returns the text of a string that stands alone, as the docstring after an assignment."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return inspect.cleandoc(str(node.value.value))
    return ""


def listed_names(module: str) -> list[str]:
    """Returns the `__all__` of a module; without one, the classes and functions that it defines."""
    defined = []
    for node in parsed(module).body:
        if "__all__" in assigned_names(node):
            return sorted(ast.literal_eval(node.value))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            defined.append(node.name)
    return defined


@cache
def public_names(package: str) -> dict[str, Definition]:
    """Returns the names in the `__all__` of a package, with their definitions."""
    if package == "replicate":
        names = listed_names("replicate.public")
        return {name: definition("replicate.public", name) for name in names}
    return {name: definition(package, name) for name in listed_names(package)}


def module_names(module: str) -> dict[str, Definition]:
    """Returns the public names of a public module, with their definitions.

    Names that are documented elsewhere come first, then classes and functions, then other values.
    """

    def rank(item: tuple[str, Definition]) -> int:
        return 2 if item[1].kind == "data" else int(short_name(item[1]) is None)

    names = {name: definition(module, name) for name in listed_names(module)}
    return dict(sorted(names.items(), key=rank))


def chosen_names(package: str, modules: list[str]) -> dict[str, Definition]:
    """Returns the public names of a package that are defined in or below the given modules.

    They are in the order of the modules; classes and functions are before other values.
    """
    chosen = {
        name: found
        for module in modules
        for name, found in public_names(package).items()
        if found.kind != "module" and f"{found.module}.".startswith(f"{module}.")
    }
    return dict(sorted(chosen.items(), key=lambda item: item[1].kind == "data"))


def short_name(found: Definition) -> str | None:
    """Returns the name in a package, such as `kfac.KfacOptimizer`, of what a module defines."""
    for package in PACKAGES:
        for name, other in public_names(package).items():
            if (other.module, other.name) == (found.module, found.name):
                return f"{package}.{name}"
    return None


def named_in(text: str) -> Iterator[tuple[str, str, dict[str, Definition]]]:
    """Yields each directive of a page of the reference: its name, its place, and its names."""
    for directive, place, content in DIRECTIVE.findall(text):
        is_package = directive == "public"
        names = chosen_names(place, content.split()) if is_package else module_names(place)
        yield directive, place, names


def has_own_page(full_name: str, found: Definition) -> bool:
    """Returns True for a class that is documented under this name, on a page of its own."""
    return found.kind == "class" and short_name(found) in (None, full_name)


def class_pages() -> dict[str, str]:
    """Returns the full name of each class that has a page, and the page that lists it."""
    return {
        f"{place}.{name}": page.stem
        for page in sorted(PAGES.glob("*.md"))
        for _, place, names in named_in(page.read_text())
        for name, found in names.items()
        if has_own_page(f"{place}.{name}", found)
    }


def first_sentence(doc: str) -> str:
    """Returns the first sentence of a docstring, in one line."""
    paragraph = " ".join(doc.partition("\n\n")[0].split())
    return SENTENCE.match(paragraph)[0]


def referenced() -> Iterator[tuple[str, Definition]]:
    """Yields the full name and definition of all that the pages of the reference document."""
    for page in sorted(PAGES.glob("*.md")):
        for directive, place, names in named_in(page.read_text()):
            if directive == "public-module":
                tree = parsed(place)
                yield place, Definition(place, "", "module", ast.get_docstring(tree) or "")
            for name, found in names.items():
                yield f"{place}.{name}", found
