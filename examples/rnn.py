"""Trains a recurrent network that reads images of digits row by row, on two towers, with K-FAC.

    python -m examples.rnn
    python -m examples.rnn --approx=kron_indep --model_dir=runs/rnn_indep

`--approx` says what K-FAC takes the uses of the recurrent weights for: a chain in the order of
time, in two forms, or independent of each other.
"""

from absl import flags

from examples import cli, mnist, model_dir, run_flags

APPROXIMATIONS = ["kron_series_2", "kron_series_1", "kron_indep"]

FLAGS = flags.FLAGS
run_flags.define(model_dir="runs/rnn", batch_size=128, train_steps=200, eval_every_steps=100)
flags.DEFINE_enum("approx", "kron_series_2", APPROXIMATIONS, "Of the recurrent weights.")
run_flags.define_positive("learning_rate", 0.03, "Of K-FAC.")
run_flags.define_momentum(0.9, "Of K-FAC.")
run_flags.define_positive("damping", 0.03, "Of K-FAC.")


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = run_flags.read()
    names = ("approx", "learning_rate", "momentum", "damping")
    params = {name: FLAGS[name].value for name in names}
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        model_dir.claim(settings.model_dir, f"an RNN with {FLAGS.approx} on {data.size}")

    cli.import_tensorflow()
    from examples import rnn_model, training  # noqa: PLC0415

    title = f"RNN on {data.name}, K-FAC with {FLAGS.approx}"
    training.run(rnn_model.model_fn, data, settings, params, title)


if __name__ == "__main__":
    cli.run(main)
