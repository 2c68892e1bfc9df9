"""Steps and processor seconds to a training loss in Keras' `fit`: K-FAC, Adam, SGD and Muon.

The learning rate that reaches the lowest loss first, or comes closest, counts; that with the first
of several seeds.

    python -m benchmarks.keras_fit --data_dir=DIR     # MNIST's four IDX files, plain or .gz
    python -m benchmarks.keras_fit --data_dir=DIR --network=vit --steps=300

On a network for images, K-FAC, Adam and SGD race to a share of held-out images that are taken for
another class.

--picture=FILE draws the loss by steps and by seconds.
"""

import statistics
from collections.abc import Mapping, Sequence

from absl import flags

from benchmarks import curves, harness, loss_pictures
from benchmarks.curves import Curve
from examples.lazy_module import LazyModule

mnist = LazyModule("examples.mnist")
race = LazyModule("benchmarks.keras_fit.race")

FLAGS = flags.FLAGS
PERCEPTRON = (0.1, 0.03)
IMAGES = (0.25, 0.2)
"""Default losses of the perceptron, and shares of wrong classes of the other networks."""


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "data_dir", None, "MNIST's four IDX files; without it scikit-learn's digits"
    )
    flags.DEFINE_enum("network", "perceptron", ["perceptron", "vit", "resnet"], "network to train")
    flags.DEFINE_integer("steps", 600, "steps of each run", lower_bound=1)
    flags.DEFINE_integer("every", 30, "steps between two measurements of the loss", lower_bound=1)
    flags.DEFINE_integer("seeds", 1, "runs of each best rate", lower_bound=1)
    flags.DEFINE_list(
        "losses", [], "falling losses to reach, in nats, or shares of wrong classes of images"
    )
    harness.define_flags(picture=True)


def best(found: Mapping[float, Curve], losses: Sequence[float]) -> float:
    """Returns the learning rate that reaches the lowest loss of all first.

    A rate that reaches more of the losses, which fall, is better.
    """

    def rank(rate: float) -> tuple[float, float, float]:
        reached = [steps for loss in losses if (steps := found[rate].reach(loss)) is not None]
        return -len(reached), max(reached, default=0), min(found[rate].losses)

    return min(found, key=rank)


def main(argv: Sequence[str]) -> None:
    """Runs the benchmark, prints its table, and draws the curves with --picture."""
    del argv
    data = mnist.load(FLAGS.data_dir)
    is_of_images = FLAGS.network != "perceptron"
    racers, held_out = race.optimizers(FLAGS.network), data.test if is_of_images else None
    losses = [float(loss) for loss in FLAGS.losses or (IMAGES if is_of_images else PERCEPTRON)]

    def run(name: str, rate: float, seed: int) -> Curve:
        optimizer = racers[name][0](race.decaying(rate, FLAGS.steps))
        length = FLAGS.steps, FLAGS.every
        curve = race.train(FLAGS.network, optimizer, data.train, *length, held_out, seed)
        print(f"{name} {rate:g}, seed {seed}: {curve.losses[-1]:.4f} at the end", flush=True)
        return curve

    runs = {}
    for name, (_, rates) in racers.items():
        first = {rate: run(name, rate, 0) for rate in rates}
        rate = best(first, losses)
        found = [first[rate], *(run(name, rate, n) for n in range(1, FLAGS.seeds))]
        per_step = statistics.median(curve.seconds[-1] / curve.steps[-1] for curve in found)
        runs[name] = curves.Raced(f"{rate:g}", per_step, found)
    unit = "wrong" if is_of_images else "nats"
    print("\n".join(curves.table(runs, losses, unit, "learning rate")))
    harness.save({n: {"rate": float(rate), "runs": found} for n, (rate, _, found) in runs.items()})
    if FLAGS.picture:
        lines = {name: each.curves[:1] for name, each in runs.items()}
        place = f"perceptron, {'MNIST' if FLAGS.data_dir else 'digits'}"
        target = lines["Adam"][0].losses[-1]
        row = loss_pictures.Row(place, lines, target, "Adam's last loss")
        title = "Keras' fit, each optimizer at its best learning rate"
        labels = "training loss, nats per image", "processor seconds of training"
        loss_pictures.draw(title, labels[0], [row], FLAGS.picture, labels[1])


if __name__ == "__main__":
    define_flags()
    harness.run(main)
