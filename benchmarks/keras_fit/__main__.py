"""Steps and processor seconds to a training loss in Keras' `fit`: K-FAC, Adam, SGD and Muon.

The learning rate that reaches the lowest loss first, or comes closest, counts.

    python -m benchmarks.keras_fit --data_dir=DIR     # MNIST's four IDX files, plain or .gz
    python -m benchmarks.keras_fit --data_dir=DIR --network=vit --steps=300

On a network for images, K-FAC, Adam and SGD race to a share of held-out images that are taken for
another class.

--picture=FILE draws the loss by steps and by seconds.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.keras_fit.race import Curve

FLAGS = flags.FLAGS
PERCEPTRON = (0.1, 0.03, 0.01)
IMAGES = (0.2, 0.15, 0.13)
"""Default losses of the perceptron, and shares of wrong classes of the other networks."""


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "data_dir", None, "MNIST's four IDX files; without it scikit-learn's digits"
    )
    flags.DEFINE_enum("network", "perceptron", ["perceptron", "vit", "resnet"], "network to train")
    flags.DEFINE_integer("steps", 600, "steps of each run", lower_bound=1)
    flags.DEFINE_integer("every", 30, "steps between two measurements of the loss", lower_bound=1)
    flags.DEFINE_list(
        "losses", [], "falling losses to reach, in nats, or shares of wrong classes of images"
    )
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


def table(
    curves: Mapping[str, Mapping[float, "Curve"]], losses: Sequence[float], unit: str = "nats"
) -> list[str]:
    """Returns the rows of the table: steps and seconds to each loss, at each best rate."""
    rows = []
    for name, by_rate in curves.items():
        rate = best(by_rate, losses)
        curve = by_rate[rate]
        cells = [curve.reach(loss) for loss in losses]
        texts = ["not reached" if c is None else f"{c[0]} steps, {c[1]:.1f} s" for c in cells]
        per_step = 1000 * curve.seconds[-1] / curve.steps[-1]
        rows.append([name, f"{rate:g}", f"{per_step:.1f}", *texts])
    heads = ("optimizer", "learning rate", "ms per step", *(f"{loss:g} {unit}" for loss in losses))
    return list(harness.table(heads, rows))


def main(_: Sequence[str]) -> None:
    """Runs the benchmark, prints its table, and draws the curves with --picture."""
    from benchmarks.keras_fit import race  # noqa: PLC0415  # TensorFlow, once --help is served.
    from examples import mnist  # noqa: PLC0415

    data = mnist.load(FLAGS.data_dir)
    is_of_images = FLAGS.network != "perceptron"
    racers, held_out = race.optimizers(FLAGS.network), data.test if is_of_images else None
    curves: dict[str, dict[float, Curve]] = {name: {} for name in racers}
    for name, (make, rates) in racers.items():
        for rate in rates:
            optimizer, length = make(race.decaying(rate, FLAGS.steps)), (FLAGS.steps, FLAGS.every)
            curve = race.train(FLAGS.network, optimizer, data.train, *length, held_out)
            curves[name][rate] = curve
            print(f"{name} {rate:g}: {curve.losses[-1]:.4f} at the end", flush=True)
    losses = [float(loss) for loss in FLAGS.losses or (IMAGES if is_of_images else PERCEPTRON)]
    print("\n".join(table(curves, losses, "wrong" if is_of_images else "nats")))
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
    labels = "training loss, nats per image", "processor seconds of training"
    loss_pictures.draw(title, labels[0], [row], FLAGS.picture, labels[1])


if __name__ == "__main__":
    define_flags()
    harness.run(main)
