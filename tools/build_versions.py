"""Builds the site of several versions, each in a folder of its own, with a selector on each page.

    python tools/build_versions.py docs/_build/html v0.1.0 main

A version is a tag, a branch or a commit. Its files are unpacked into a temporary folder and built
there, by the settings that it has itself; the checkout stays as it is. The start of the site leads
to the first version. Warnings are shown and do not stop the build: a version that is out cannot be
repaired.
"""

import argparse
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SELECTOR = Path(__file__).with_name("version_selector.js")
NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*(/[A-Za-z0-9_][\w.+-]*)*", re.ASCII)
NOT_SHOWN = {"_sources", "_static", "source"}  # Folders whose pages no version shares with others.


def git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs git in a repository, and returns what it printed with its exit code."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=repository, capture_output=True, check=False)  # noqa: S603


def check_refs(repository: Path, refs: list[str]) -> None:
    """Checks that each version can be built.

    Raises:
      ValueError: One is named twice or cannot be a folder's name, is no commit, or has no site.
    """
    for number, ref in enumerate(refs):
        if ref in refs[:number]:
            raise ValueError(f"VERSIONS names {ref!r} twice; name each version once.")
        if not NAME.fullmatch(ref):
            raise ValueError(
                f"VERSIONS has {ref!r}, which cannot be the name of a folder; name tags, branches "
                "or commits of letters, digits and any of '_ . + - /'."
            )
        if git(repository, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").returncode:
            raise ValueError(
                f"VERSIONS has {ref!r}, which is no tag, branch or commit of this repository; "
                f"its {known_refs(repository)}."
            )
        if git(repository, "cat-file", "-e", f"{ref}:docs/conf.py").returncode:
            raise ValueError(f"VERSIONS has {ref!r}, which has no site: it lacks docs/conf.py.")


def check_folder(site: Path) -> None:
    """Checks that a folder may be replaced.

    Raises:
      ValueError: It has files, and none of them is the start page of a site.
    """
    if site.exists() and any(site.iterdir()) and not (site / "index.html").exists():
        raise ValueError(f"{site} has files that are no site; name a folder that may be replaced.")


def known_refs(repository: Path) -> str:
    """Returns the last tags and branches of a repository, as a part of a sentence."""
    listing = ["for-each-ref", "--format=%(refname:short)", "--sort=-version:refname", "--count=9"]
    named = {
        kind: git(repository, *listing, f"refs/{place}").stdout.decode().split()
        for kind, place in (("tags", "tags"), ("branches", "heads"))
    }
    return ", its ".join(f"{kind} are {', '.join(names)}" for kind, names in named.items() if names)


def build(repository: Path, ref: str, site: Path, sphinx: list[str]) -> None:
    """Builds one version.

    Args:
      repository: Folder of the repository.
      ref: Version.
      site: Folder for its pages.
      sphinx: More arguments for Sphinx.

    Raises:
      subprocess.CalledProcessError: The build failed; what Sphinx says is on stderr.
    """
    archive = git(repository, "archive", ref).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        command = [sys.executable, "-m", "sphinx", "-E", "-j", "auto", "-q", *sphinx]
        command += ["-d", "docs/_build/doctrees", "docs", "docs/_build/html"]
        environment = {**os.environ, "PYTHONPATH": folder}
        subprocess.run(command, cwd=folder, env=environment, check=True)  # noqa: S603
        shutil.move(Path(folder, "docs", "_build", "html"), site)


def pages_of(site: Path) -> list[str]:
    """Returns the pages of a version, relative to its folder."""
    pages = (page.relative_to(site) for page in sorted(site.rglob("*.html")))
    return [page.as_posix() for page in pages if page.parts[0] not in NOT_SHOWN]


def add_selector(page: Path, top: Path) -> None:
    """Makes a page load the selector, whose files are in the folder `top`."""
    start = Path(os.path.relpath(top, page.parent)).as_posix()
    scripts = "".join(
        f'<script defer src="{start}/{name}"></script>' for name in ("versions.js", SELECTOR.name)
    )
    page.write_text(page.read_text().replace("</head>", f"{scripts}</head>", 1))


def write_top(top: Path, refs: list[str]) -> None:
    """Writes the files that all versions share: the list, the selector, the start page."""
    versions = [{"name": ref, "pages": pages_of(top / ref)} for ref in refs]
    (top / "versions.js").write_text(f"const siteVersions = {json.dumps(versions)};\n")
    (top / SELECTOR.name).write_bytes(SELECTOR.read_bytes())
    start = html.escape(f"{refs[0]}/index.html")
    (top / "index.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Documentation</title>'
        f'<meta http-equiv="refresh" content="0; url={start}"></head>'
        f'<body><a href="{start}">{html.escape(refs[0])}</a></body></html>\n'
    )


def main(arguments: list[str] | None = None, repository: Path = ROOT) -> int:
    """Builds all versions, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path, help="folder for the pages; replaced")
    parser.add_argument("refs", nargs="+", help="tags, branches or commits")
    parser.add_argument("--sphinx", default="", help="more arguments for Sphinx, as one text")
    given = parser.parse_args(arguments)
    top = given.site.resolve()
    try:
        check_refs(repository, given.refs)
        check_folder(top)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    shutil.rmtree(top, ignore_errors=True)
    for ref in given.refs:
        print(f"building {ref}", flush=True)
        try:
            build(repository, ref, top / ref, shlex.split(given.sphinx))
        except subprocess.CalledProcessError:
            print(f"The site of {ref!r} cannot be built; its errors are above.", file=sys.stderr)
            return 1
        for page in (top / ref).rglob("*.html"):
            add_selector(page, top)
    write_top(top, given.refs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
