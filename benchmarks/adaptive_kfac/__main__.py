"""Runs of `kfac.keras.Kfac(adaptive=True)`, and those that diverge.

python -m benchmarks.adaptive_kfac --data_dir=MNIST --data_dir=FASHION_MNIST
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.adaptive_kfac.runs import Run

FLAGS = flags.FLAGS
NETWORKS = ("ConvNet", "perceptron")
DIGITS = "digits"


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_multi_string(
        "data_dir", [], "folder of four IDX files; scikit-learn's digits are always among the data"
    )
    flags.DEFINE_list("batch_sizes", ["64", "128", "256", "512", "1024"], "examples of a step")
    flags.DEFINE_multi_enum("network", NETWORKS, NETWORKS, "networks to train")
    flags.DEFINE_integer("seeds", 5, "runs of each case", lower_bound=1)
    flags.DEFINE_integer("steps", 40, "steps of each run", lower_bound=1)
    harness.define_flags()


def row(title: Sequence[object], found: Mapping[str, Sequence["Run"]]) -> str:
    """Returns a row of the table: diverged runs of K-FAC, and losses at the end."""
    kfac = found["K-FAC"]
    lasts = sorted(run.last for run in kfac)
    cells = [
        *title,
        f"{sum(run.diverges for run in kfac)} of {len(kfac)}",
        f"{max(run.highest / run.first for run in kfac):.2f}",
        f"{lasts[0]:.3f} to {lasts[-1]:.3f}",
        *(f"{found[name][0].last:.3f}" for name in ("Adam", "SGD")),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _seeds(optimizer: str) -> int:
    return int(FLAGS.seeds) if optimizer == "K-FAC" else 1


def cases() -> Iterator[tuple[str, str, int]]:
    """Yields data, network and batch size of each case, from the flags."""
    for data in (DIGITS, *FLAGS.data_dir):
        for network in FLAGS.network:
            for batch in FLAGS.batch_sizes:
                yield data, network, int(batch)


def main(_: Sequence[str]) -> None:
    """Runs the benchmark and prints its table as it grows."""
    from benchmarks.adaptive_kfac import runs  # noqa: PLC0415  # TensorFlow, once --help is served.
    from examples import mnist  # noqa: PLC0415

    print("| data | network | batch | diverged | highest loss / first | loss | Adam | SGD |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    record = {}
    for data, network, batch in cases():
        examples = mnist.load(None if data == DIGITS else data).train[:2]
        cases_by_name = {
            name: runs.Case(name, network, examples, batch) for name in runs.OPTIMIZERS
        }
        found = {
            name: [case.train(seed, FLAGS.steps) for seed in range(_seeds(name))]
            for name, case in cases_by_name.items()
        }
        title = pathlib.Path(data).name, network, batch
        print(row(title, found), flush=True)
        record[" ".join(map(str, title))] = found
    harness.save(record)


if __name__ == "__main__":
    define_flags()
    harness.run(main)
