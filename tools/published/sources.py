"""Sources of public programs: one commit of a repository, from a mirror or from its host."""

import os
import subprocess
from pathlib import Path

HOST = "https://github.com"
_SECS = 600
_LINK = "120000"


class AbsentSourcesError(LookupError):
    """The sources of a program cannot be had; the message says why."""


class Sources:
    """Repositories, in a folder of mirrors or on a host.

    A mirror of owner/name is the git directory, or the clone, `owner+name/repo` in the folder.
    What the host gives is kept in a cache, one commit without history for each repository.
    """

    def __init__(self, cache: Path, mirrors: Path | None = None, host: str = HOST) -> None:
        """Takes the folders; the mirrors alone are asked if they are given."""
        self._cache = cache
        self._mirrors = mirrors
        self._host = host

    def write(self, repository: str, commit: str, folder: Path) -> None:
        """Writes the files of a commit into a folder.

        Raises:
          AbsentSourcesError: There is no such mirror, repository or commit.
        """
        git = self._mirror(repository) if self._mirrors else self._fetched(repository, commit)
        blobs = _blobs(_git(git, "ls-tree", "-r", "-z", commit))
        texts = _texts(_git(git, "cat-file", "--batch", given="\n".join(blobs.values())))
        for name, blob in blobs.items():
            if blob in texts:  # Mirrors may lack large files.
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(texts[blob])

    def _mirror(self, repository: str) -> Path:
        name = repository.replace("/", "+")
        folder = Path(self._mirrors or ".") / name / "repo"
        for git in (folder / ".git", folder):
            if (git / "HEAD").exists():
                return git
        raise AbsentSourcesError(f"there is no mirror {name}")

    def _fetched(self, repository: str, commit: str) -> Path:
        git = self._cache / repository.replace("/", "+")
        if not (git / "HEAD").exists():
            git.mkdir(parents=True, exist_ok=True)
            _git(git, "init", "--bare", "--quiet")
        if _git(git, "cat-file", "--batch-check", given=commit).endswith(b"missing\n"):
            _git(git, "fetch", "--quiet", "--depth=1", f"{self._host}/{repository}", commit)
        return git


def commit_of(clone: Path) -> str:
    """Returns the commit that a clone is at, 12 digits; "" for a folder without git."""
    try:
        return _git(clone / ".git", "rev-parse", "--short=12", "HEAD").decode().strip()
    except AbsentSourcesError:
        return ""


def _blobs(listing: bytes) -> dict[str, str]:
    """Returns the names of files in a listing of `git ls-tree`, each with that of its text."""
    blobs = {}
    for line in listing.split(b"\0")[:-1]:
        kind, name = line.split(b"\t", 1)
        mode, what, blob = kind.decode().split()
        if what == "blob" and mode != _LINK:
            blobs[os.fsdecode(name)] = blob
    return blobs


def _texts(answer: bytes) -> dict[str, bytes]:
    """Returns the texts in an answer of `git cat-file --batch`, by their names."""
    texts = {}
    place = 0
    while place < len(answer):
        end = answer.index(b"\n", place)
        blob, *told = answer[place:end].decode().split()
        place = end + 1
        if told[-1] != "missing":
            size = int(told[-1])
            texts[blob] = answer[place : place + size]
            place += size + 1
    return texts


def _git(folder: Path, *arguments: str, given: str = "") -> bytes:
    command = ["git", f"--git-dir={folder}", *arguments]
    try:
        done = subprocess.run(  # noqa: S603
            command, input=f"{given}\n".encode(), capture_output=True, timeout=_SECS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AbsentSourcesError(f"git {arguments[0]} cannot be run: {error}") from None
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise AbsentSourcesError(f"git {arguments[0]}: {told[-1]}")
    return done.stdout
