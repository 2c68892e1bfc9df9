"""Counts the modules that a reader of one module may have to read: those behind its imports.

    python tools/import_trail.py replicate.gradients.tower_optimizer kfac.optimizer
    python tools/import_trail.py --list kfac.optimizer
    python tools/import_trail.py --loaded kfac.optimizer
    python tools/import_trail.py --rooms replicate

The first form prints the number of modules and lines behind each module, the second lists them, the
third counts those that an import of the module itself asks for, and the fourth prints which folders
and files of a package import which. Except with --loaded, imports for type checkers only and
imports inside of functions count, too.
"""

import argparse
import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("kfac", "model_deploy", "replicate")


def sources() -> dict[str, Path]:
    """Returns the file of each module of the packages, by dotted name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: Mapping[str, Path], loaded: bool = False) -> set[str]:
    """Returns the modules that a file imports, of those that are known.

    Args:
      path: The file.
      known: The file of each module.
      loaded: True to leave out imports for type checkers and those inside of functions.
    """
    return {name for name in _imported_names(path, loaded) if name in known}


def _statements(node: ast.AST, loaded: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        is_later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not (loaded and (is_later or for_types)):
            yield child
            yield from _statements(child, loaded)


def _imported_names(path: Path, loaded: bool) -> Iterator[str]:
    for node in _statements(ast.parse(path.read_text()), loaded):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def trail(module: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """Returns all modules that a module imports, directly or not, without itself."""
    found: set[str] = set()
    pending = [module]
    while pending:
        new = arrows[pending.pop()] - found
        found |= new
        pending += new
    return found - {module}


def rooms(package: str, arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Returns which folders and files directly in a package import which others."""

    def room(module: str) -> str:
        return module.removeprefix(f"{package}.").split(".")[0]

    found: dict[str, set[str]] = {}
    for module, targets in arrows.items():
        if module.startswith(f"{package}."):
            inside = {room(each) for each in targets if each.startswith(f"{package}.")}
            found.setdefault(room(module), set()).update(inside - {room(module)})
    return found


def main() -> None:
    """Prints the trails of the modules on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="+", help="modules, or packages with --rooms")
    parser.add_argument("--list", action="store_true", help="list the modules, too")
    parser.add_argument("--loaded", action="store_true", help="count what is loaded only")
    parser.add_argument("--rooms", action="store_true", help="print a package's folders instead")
    options = parser.parse_args()
    known = sources()
    unknown = [module for module in options.modules if module not in known]
    if unknown:
        parser.error(f"no such module: {', '.join(unknown)}. Known packages: {', '.join(PACKAGES)}")
    arrows = {name: imports(path, known, options.loaded) - {name} for name, path in known.items()}
    if options.rooms:
        for package in options.modules:
            _print_rooms(package, rooms(package, arrows))
        return
    for module in options.modules:
        behind = {name: len(known[name].read_text().splitlines()) for name in trail(module, arrows)}
        print(f"{module}: {len(behind)} modules, {sum(behind.values()):,} lines")
        if options.list:
            print(
                "".join(f"  {lines:>5}  {name}\n" for name, lines in sorted(behind.items())), end=""
            )


def _print_rooms(package: str, found: Mapping[str, set[str]]) -> None:
    print(f"{package}: {len(found)} rooms, {sum(map(len, found.values()))} arrows")
    for room, targets in sorted(found.items()):
        print(f"  {room}: {' '.join(sorted(targets)) or '-'}")


if __name__ == "__main__":
    main()
