"""Prints how many of the names of TensorFlow 1 that programs import lead to something usable.

    python tools/old_imports.py FOLDER... [--missing]

FOLDER is a folder of Python files, a bare Git repository, whose HEAD is read, or a folder of them.
The names are those of import statements below tensorflow and tensorflow_estimator, and what is read
from the modules that such statements bind: `from tensorflow.python.ops import array_ops` and
`array_ops.stack` count as two names. Each is looked up as the runner's programs see it. It counts
as there if it is there and can be used, as told if its use ends with a sentence that says what to
use instead, and as missing otherwise. A name of TensorFlow 2 counts for nothing. --missing lists
the names that are told or missing, with their numbers of files.
"""

import argparse
import ast
import collections
import importlib.util
import io
import os
import re
import subprocess
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from replicate.compat.absent import OldNameError, is_absent
from replicate.compat.installation import install
from replicate.compat.tf1_view import TF2, view_builtins

ROOTS = ("tensorflow", "tensorflow_estimator")
IMPORT = re.compile(rb"^[ \t]*((?:from|import)[ \t]+tensorflow[^\n#;\\(]*)$", re.MULTILINE)
GROUPS = ("tensorflow.contrib", "tensorflow.python", "tensorflow_estimator", "tensorflow.estimator")


def sources(folder: Path) -> Iterator[bytes]:
    """Returns the text of each Python file of a folder, or of the Git repositories below it."""
    if (folder / "HEAD").is_file():
        yield from _at_head(folder)
        return
    repositories = [head.parent for head in sorted(folder.rglob("HEAD")) if is_bare(head.parent)]
    for repository in repositories:
        yield from _at_head(repository)
    if not repositories:
        yield from (path.read_bytes() for path in sorted(folder.rglob("*.py")))


def is_bare(folder: Path) -> bool:
    """Returns True for a bare Git repository."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _at_head(repository: Path) -> Iterator[bytes]:
    """Returns the text of the Python files of HEAD, without those that the repository lacks."""
    git = ["git", "-C", str(repository)]
    tree = subprocess.run([*git, "ls-tree", "-rz", "HEAD"], check=True, stdout=subprocess.PIPE)  # noqa: S603
    rows = (row.partition(b"\t") for row in tree.stdout.split(b"\0"))
    blobs = [head.split()[2] for head, _, path in rows if path.endswith(b".py")]
    batch = subprocess.run(  # noqa: S603
        [*git, "cat-file", "--batch"], input=b"\n".join(blobs), check=True, stdout=subprocess.PIPE
    )
    stream = io.BytesIO(batch.stdout)
    while head := stream.readline().split():
        if head[-1] != b"missing":
            yield stream.read(int(head[2]))
            stream.read(1)


def names_of(source: bytes) -> set[str]:
    """Returns the dotted names of TensorFlow that a file imports, and reads from its modules."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # Python 2: its import statements parse.
        lines = b"\n".join(line.strip() for line in IMPORT.findall(source))
        try:
            tree = ast.parse(lines)
        except SyntaxError:
            return set()
    names: set[str] = set()
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        for name, local in _imported(node):
            names.add(name)
            bound[local] = name if local != name.partition(".")[0] else local
    nodes = list(ast.walk(tree))
    inner = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        root, _, rest = ("" if node in inner else _dotted(node) or "").partition(".")
        if rest and root in bound:
            names.add(f"{bound[root]}.{rest}")
    return names - set(ROOTS)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Returns the names that an import statement imports, with the names that it binds."""
    if isinstance(node, ast.Import):
        for each in node.names:
            if each.name.partition(".")[0] in ROOTS:
                yield each.name, each.asname or each.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
        for each in node.names:
            if node.module.partition(".")[0] in ROOTS:
                name = node.module if each.name == "*" else f"{node.module}.{each.name}"
                yield name, each.asname or each.name


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{before}.{node.attr}" if isinstance(node, ast.Attribute) and before else None


def trouble_with(name: str) -> str | None:
    """Returns the advice of a name that cannot be used, "" if it is missing, None if it is there.

    Attributes of objects are not looked up, but for those of classes.
    """
    get: Any = view_builtins()["__import__"]
    root, *rest = name.split(".")
    value: Any = get(root)
    path = root
    for part in rest:
        path = f"{path}.{part}"
        if not isinstance(value, types.ModuleType | type):
            return None
        try:
            value = getattr(value, part)
        except AttributeError as error:
            try:
                value = get(path, fromlist=("*",))
            except ImportError:
                return _advice(error)
        if is_absent(value):
            return str(value.advice)
    return None


def _advice(error: AttributeError) -> str:
    return str(error) if isinstance(error, OldNameError) and "). " in str(error) else ""


def group_of(name: str) -> str:
    """Returns the package under which a name counts."""
    return next((each for each in GROUPS if f"{name}.".startswith(f"{each}.")), "tensorflow")


def report(uses: Mapping[str, int], lists_missing: bool) -> Iterator[str]:
    """Returns the lines of the report on names with their numbers of files."""
    troubles = {name: trouble_with(name) for name in uses}
    of_1 = {name: each for name, each in troubles.items() if TF2 not in (each or "")}
    for group in (*GROUPS, "tensorflow", ""):
        names = [name for name in of_1 if group in ("", group_of(name))]
        there = sum(of_1[name] is None for name in names)
        told = sum(bool(of_1[name]) for name in names)
        line = f"{group or 'all':22} {there:5} of {len(names):5} names there, {told:4} told"
        yield f"{line}, {len(names) - there - told:4} missing"
    missing = [name for name in of_1 if of_1[name] is not None] if lists_missing else []
    for name in sorted(missing, key=lambda each: (bool(of_1[each]), -uses[each], each)):
        yield f"  {name}  {uses[name]}  {of_1[name] or 'MISSING'}"


def main() -> None:
    """Prints the report on the folders of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--missing", action="store_true", help="list names that cannot be used")
    arguments = parser.parse_args()
    print("\n".join(report(_uses(arguments.folders), arguments.missing)))


def _uses(folders: Iterable[Path]) -> collections.Counter[str]:
    if importlib.util.find_spec("tf_keras") is not None:  # As the runner does.
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    install()
    return collections.Counter(
        name for folder in folders for source in sources(folder) for name in names_of(source)
    )


if __name__ == "__main__":
    main()
