"""Trains a network on two towers with the optimizer of `examples/lion.py`.

    python -m examples.bring_your_own_optimizer

`replicate.TowerOptimizer` wraps any `tf.compat.v1.train.Optimizer`, also your own.
"""

from absl import flags

from examples import cli, mnist

FLAGS = flags.FLAGS
cli.define_run_flags(model_dir="runs/lion", batch_size=128, train_steps=200, eval_every_steps=50)
cli.define_positive("learning_rate", 0.003, "How far each weight moves in a step.")
flags.DEFINE_float("weight_decay", 0.1, "Moves weights towards zero.", 0)


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = cli.read_run_flags()
    params = {name: FLAGS[name].value for name in ("learning_rate", "weight_decay")}
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"an MLP with Lion on {data.size}")

    cli.import_tensorflow()
    from examples import lion, training  # noqa: PLC0415

    training.run(lion.model_fn, data, settings, params, f"MLP on {data.name}, Lion")


if __name__ == "__main__":
    cli.run(main)
