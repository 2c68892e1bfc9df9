"""A public program: where its source is, how it is started, and what it prints."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

ESTIMATOR_LOSS = r"\bloss(?: for final step:|:| =|) (-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan)"
"""Losses in the log of an Estimator: `loss = 0.5`, `step 2/2 … loss 0.5`, `loss: 0.5`."""

DRIVERS = Path(__file__).parent / "drivers"


@dataclasses.dataclass(frozen=True)
class Program:
    """A program at one commit of its repository.

    Attributes:
      name: Name of the program in the table, once per program.
      repository: "owner/name" on GitHub.
      commit: Commit, 40 digits.
      uses: Parts of TensorFlow 1 that it uses.
      arguments: File, or "-m" and module, then its arguments. `{data}` stands for the folder of
        the data, `{out}` for an empty folder, `{source}` for the folder of the program.
      data: Makes the data in a folder, in less than a second.
      has_estimator: True if it trains an Estimator, and so can train on several towers.
      result: Pattern of a number in what it and the commands before it print: what it learnt.
      result_file: File in whose text the number is instead.
      folder: Folder in the repository that it is started in.
      place: Folder that the repository is put into, for one that is a package itself.
      rewritten: Folder in the repository with its modules; "" for that which it is started in.
      options: Options of the runner; the rewriter gets those that it has, too.
      first: Commands that run before it, written as `arguments`.
      settings: Pieces of its files, which have no flag for it, and what stands there instead.
      beside: Other repositories that it needs: name, commit, and the folder that they are put into.
      driver: File of `drivers/` that is put into its folder, for a model without a program.
      packages: Modules that it imports beside TensorFlow, NumPy and the project.
      environment: Environment variables.
    """

    name: str
    repository: str
    commit: str
    uses: str
    arguments: tuple[str, ...]
    data: Callable[[Path], None]
    has_estimator: bool = True
    result: str = ESTIMATOR_LOSS
    result_file: str = ""
    folder: str = "."
    place: str = ""
    rewritten: str = ""
    options: tuple[str, ...] = ()
    first: tuple[tuple[str, ...], ...] = ()
    settings: tuple[tuple[str, str, str], ...] = ()
    beside: tuple[tuple[str, str, str], ...] = ()
    driver: str = ""
    packages: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def url(self) -> str:
        """Address of its source at the commit."""
        return f"https://github.com/{self.repository}/tree/{self.commit[:12]}"


def filled(text: str, places: Mapping[str, str]) -> str:
    """Returns a text with folders in place of their names, such as `{data}`."""
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", place)
    return text


def set_up(program: Program, source: Path, places: Mapping[str, str]) -> None:
    """Puts the driver and the settings of a program into its source.

    Raises:
      ValueError: A piece that a setting replaces is not in its file.
    """
    if program.driver:
        text = (DRIVERS / program.driver).read_text()
        (source / program.folder / program.driver).write_text(text)
    for name, old, new in program.settings:
        path = source / name
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if old not in text:
            raise ValueError(f"{program.name}: {name} has no {old!r}.")
        text = text.replace(old, filled(new, places))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
