"""Runs of `kfac.keras.Kfac(adaptive=True)`, and those that diverge.

python -m benchmarks.adaptive_kfac --data_dir=MNIST --data_dir=FASHION_MNIST
"""

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.adaptive_kfac.runs import Run

FLAGS = flags.FLAGS
NETWORKS = ("ConvNet", "perceptron")
DIGITS = "digits"
HEADS = ("data", "network", "batch", "diverged", "highest loss / first", "loss", "Adam", "SGD")


def row(title: Sequence[object], found: Mapping[str, Sequence["Run"]]) -> str:
    """Returns a row of the table: diverged runs of K-FAC, and losses at the end."""
    kfac = found["K-FAC"]
    lasts = sorted(run.last for run in kfac)
    return harness.markdown_row([
        *title,
        f"{sum(run.diverges for run in kfac)} of {len(kfac)}",
        f"{max(run.highest / run.first for run in kfac):.2f}",
        f"{lasts[0]:.3f} to {lasts[-1]:.3f}",
        *(f"{found[name][0].last:.3f}" for name in ("Adam", "SGD")),
    ])  # fmt: skip


def main(_: Sequence[str]) -> None:
    """Runs the benchmark and prints its table as it grows."""
    from benchmarks.adaptive_kfac import runs  # noqa: PLC0415  # TensorFlow, once --help is served.
    from examples import mnist  # noqa: PLC0415

    print("\n".join(harness.table(HEADS, [])), flush=True)
    record = {}
    given = (DIGITS, *FLAGS.data_dir), FLAGS.network, map(int, FLAGS.batch_sizes)
    for data, network, batch in itertools.product(*given):
        examples = mnist.load(None if data == DIGITS else data).train[:2]
        found = {}
        for name in runs.OPTIMIZERS:
            case = runs.Case(name, network, examples, batch)
            seeds = FLAGS.seeds if name == "K-FAC" else 1
            found[name] = [case.train(seed, FLAGS.steps) for seed in range(seeds)]
        title = pathlib.Path(data).name, network, batch
        print(row(title, found), flush=True)
        record[" ".join(map(str, title))] = found
    harness.save(record)


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_multi_string("data_dir", [], "Folder of four IDX files, besides the digits.")
    flags.DEFINE_list("batch_sizes", ["64", "128", "256", "512", "1024"], "Examples of a step.")
    flags.DEFINE_multi_enum("network", NETWORKS, NETWORKS, "Networks to train.")
    flags.DEFINE_integer("seeds", 5, "Runs of each case.", lower_bound=1)
    flags.DEFINE_integer("steps", 40, "Steps of each run.", lower_bound=1)
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
