"""Steps and seconds to a training loss in Keras' `fit`: K-FAC, Adam, SGD and Muon.

The learning rate that reaches the lowest loss first, or comes closest, counts.

    python -m benchmarks.keras_fit --data_dir=DIR     # MNIST's four IDX files, plain or .gz

--picture=FILE draws the loss by steps and by seconds.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.keras_fit.race import Curve

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "data_dir", None, "MNIST's four IDX files; without it scikit-learn's digits"
    )
    flags.DEFINE_integer("steps", 600, "steps of each run", lower_bound=1)
    flags.DEFINE_integer("every", 30, "steps between two measurements of the loss", lower_bound=1)
    flags.DEFINE_list("losses", ["0.1", "0.03", "0.01"], "losses to reach, in nats, falling")
    harness.define_flags(picture=True)


def best(curves: Mapping[float, "Curve"], losses: Sequence[float]) -> float:
    """Returns the learning rate that reaches the lowest loss of all first.

    A rate that reaches more of the losses, which fall, is better.
    """

    def rank(rate: float) -> tuple[float, float, float]:
        reached = [found for loss in losses if (found := curves[rate].reach(loss))]
        last = reached[-1][0] if reached else 0
        return -len(reached), last, min(curves[rate].losses)

    return min(curves, key=rank)


def table(curves: Mapping[str, Mapping[float, "Curve"]], losses: Sequence[float]) -> list[str]:
    """Returns the rows of the table: steps and seconds to each loss, at each best rate."""
    rows = [
        "| optimizer | learning rate | ms per step | "
        + " | ".join(f"{loss:g} nats" for loss in losses)
        + " |",
        "|---|---|---|" + "---|" * len(losses),
    ]
    for name, by_rate in curves.items():
        rate = best(by_rate, losses)
        curve = by_rate[rate]
        cells = [curve.reach(loss) for loss in losses]
        texts = ["not reached" if c is None else f"{c[0]} steps, {c[1]:.1f} s" for c in cells]
        per_step = 1000 * curve.seconds[-1] / curve.steps[-1]
        rows.append(f"| {name} | {rate:g} | {per_step:.1f} | " + " | ".join(texts) + " |")
    return rows


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, prints its table, and draws the curves with --picture."""
    from benchmarks.keras_fit import race  # noqa: PLC0415  # TensorFlow, once --help is served.
    from examples import mnist  # noqa: PLC0415

    images, labels = mnist.load(FLAGS.data_dir).train[:2]
    x, y = images.reshape([len(images), -1]), labels
    curves: dict[str, dict[float, Curve]] = {name: {} for name in race.OPTIMIZERS}
    for name, (make, rates) in race.OPTIMIZERS.items():
        for rate in rates:
            curve = race.train(
                make(race.decaying(rate, FLAGS.steps)), x, y, FLAGS.steps, FLAGS.every
            )
            curves[name][rate] = curve
            print(f"{name} {rate:g}: loss {curve.losses[-1]:.4f}", flush=True)
    losses = [float(loss) for loss in FLAGS.losses]
    print("\n".join(table(curves, losses)))
    harness.save({n: {str(r): c._asdict() for r, c in of.items()} for n, of in curves.items()})
    if FLAGS.picture:
        draw({name: by_rate[best(by_rate, losses)] for name, by_rate in curves.items()})


def draw(curves: Mapping[str, "Curve"]) -> None:
    """Draws the runs at the best learning rates, and Adam's last loss as a horizontal line."""
    from benchmarks import loss_pictures  # noqa: PLC0415  # Matplotlib.

    names = {"SGD": "momentum SGD"}
    lines = [loss_pictures.Line(names.get(name, name), *curve) for name, curve in curves.items()]
    data = "MNIST" if FLAGS.data_dir else "digits"
    target = curves["Adam"].losses[-1]
    row = loss_pictures.Row(f"perceptron, {data}", lines, target, "Adam's last loss")
    title = "Keras' fit, each optimizer at the best of three learning rates"
    loss_pictures.draw(title, "training loss, nats per image", [row], FLAGS.picture)


if __name__ == "__main__":
    define_flags()
    harness.run(main)
