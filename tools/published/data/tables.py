"""Rows of tables: clicks, incomes, graphs."""

import importlib
import pickle  # noqa: TID251 - programs read it
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tools.published.data.words import write_lines


def libsvm(folder: Path) -> None:
    """Writes clicks with 5 fields and 20 features: `tr.libsvm`, `va.libsvm` and `te.libsvm`."""
    numbers = np.random.default_rng(0)
    for name in ("tr", "va", "te"):
        rows = []
        for number in range(64):
            fields = numbers.integers(0, 4, 5) + 4 * np.arange(5)
            values = " ".join(f"{field}:{numbers.uniform():.4f}" for field in fields)
            rows.append(f"{number % 2} {values}")
        write_lines(folder / f"{name}.libsvm", rows)


def _incomes(count: int) -> Iterator[str]:
    for number in range(count):
        richer = number % 3 == 0
        yield ", ".join(
            (
                str(25 + number % 40),
                ("Private", "State-gov", "Self-emp-inc")[number % 3],
                str(77516 + number),
                ("Bachelors", "HS-grad", "Masters")[number % 3],
                str(9 + number % 5),
                ("Never-married", "Divorced")[number % 2],
                ("Sales", "Tech-support", "Craft-repair")[number % 3],
                ("Not-in-family", "Husband")[number % 2],
                ("White", "Black")[number % 2],
                ("Male", "Female")[number % 2],
                str(2174 * richer),
                "0",
                str(30 + number % 20),
                "United-States",
                ">50K" if richer else "<=50K",
            )
        )


def incomes(folder: Path) -> None:
    """Writes rows of the census, `adult.data` and `adult.test`."""
    write_lines(folder / "adult.data", _incomes(80))
    write_lines(folder / "adult.test", _incomes(40))


def flowers(folder: Path) -> None:
    """Writes flowers of three kinds with four sizes, `train.csv` and `test.csv`."""
    for name, count in (("train", 60), ("test", 30)):
        rows = [f"{5 + n % 3},{3 + n % 2},{1 + n % 5},{n % 3},{n % 3}" for n in range(count)]
        write_lines(folder / f"{name}.csv", [f"{count},4,a,b,c", *rows])


def incomes_without_spaces(folder: Path) -> None:
    """Writes rows of the census without spaces, for the reader of the official models."""
    for name, count in (("adult.data", 80), ("adult.test", 40)):
        write_lines(folder / name, (line.replace(", ", ",") for line in _incomes(count)))


def citations(folder: Path) -> None:
    """Writes a graph of papers in the form of Cora, `data/ind.cora.*`."""
    sparse = importlib.import_module("scipy.sparse")
    numbers = np.random.default_rng(0)
    train, rest, test = 20, 520, 40
    labels = np.eye(4)[np.arange(rest + test) % 4]
    features = (numbers.uniform(size=[rest + test, 12]) < 0.3).astype("f4")
    features[:, :4] += labels
    parts = {
        "x": sparse.csr_matrix(features[:train]),
        "y": labels[:train],
        "allx": sparse.csr_matrix(features[:rest]),
        "ally": labels[:rest],
        "tx": sparse.csr_matrix(features[rest:]),
        "ty": labels[rest:],
        "graph": {
            n: [(n + 4) % (rest + test), (n + 8) % (rest + test)] for n in range(rest + test)
        },
    }
    folder = folder / "data"
    folder.mkdir()
    for name, part in parts.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(part, protocol=2))
    write_lines(folder / "ind.cora.test.index", [str(rest + n) for n in range(test)])
