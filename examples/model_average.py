"""Trains a multi-layer perceptron on images of digits, by averaging the weights of workers.

    python -m examples.model_average                         one worker on its own
    python -m examples.model_average --optimizer=momentum --interval_steps=20

Each worker trains weights of its own, and every --interval_steps steps all take the mean. Steps are
counted in averagings: --train_steps, --eval_every_steps and --save_every_steps are. Where TF_CONFIG
names a cluster with parameter servers, this process takes its role there; a worker that is lost and
started again goes on from the last average.

Exit codes: 0 done, 1 bug, 2 flags, TF_CONFIG or files that cannot be used, 3 diverged, 130 or 143
stopped after saving, 138 another process of the cluster cannot be reached.
"""

from absl import flags

from examples import cli, mnist, model_dir, run_flags, unused_flags

LEARNING_RATES = {"kfac": 0.03, "momentum": 0.1}

FLAGS = flags.FLAGS
run_flags.define(model_dir="runs/model_average", batch_size=64, train_steps=30, eval_every_steps=10)
flags.DEFINE_integer("interval_steps", 10, "Local steps from one averaging to the next.", 1)
flags.DEFINE_enum("optimizer", "kfac", list(LEARNING_RATES), "What makes the local steps.")
run_flags.define_learning_rate(LEARNING_RATES)
run_flags.define_momentum(0.9, "Of the optimizer.")
run_flags.define_positive("damping", 0.03, "Of kfac.")
run_flags.define_positive(
    "patience_secs", 300.0, "Seconds that an averaging waits for a worker that is lost."
)


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = run_flags.read()
    names = ("optimizer", "interval_steps", "patience_secs", "momentum", "damping")
    params = {name: FLAGS[name].value for name in names}
    params["learning_rate"] = FLAGS.learning_rate or LEARNING_RATES[FLAGS.optimizer]
    with cli.bad_input():
        unused_flags.refuse(
            unused_flags.without_effect(
                ["damping"], needs="--optimizer=kfac", met=FLAGS.optimizer == "kfac"
            )
        )
        data = mnist.load(settings.data_dir)
        model_dir.claim(settings.model_dir, f"an averaged MLP on {data.size}")

    cli.import_tensorflow()
    from examples import model_average_model, training  # noqa: PLC0415

    title = f"MLP on {data.name}, averaged weights, {FLAGS.optimizer}"
    training.run(model_average_model.model_fn, data, settings, params, title)


if __name__ == "__main__":
    cli.run(main)
