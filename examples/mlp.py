"""Trains a multi-layer perceptron on images of digits with K-FAC, as a model_fn or without one.

    python -m examples.mlp                     a replicated model_fn and an Estimator, two towers
    python -m examples.mlp --mode=plain        a plain graph: K-FAC's updates chained by hand

Either way K-FAC inverts one factor in each step instead of all of them now and then.
"""

from absl import flags

from examples import cli, mnist, model_dir, run_flags, unused_flags

FLAGS = flags.FLAGS
run_flags.define(model_dir="runs/mlp", batch_size=128, train_steps=200, eval_every_steps=50)
flags.DEFINE_enum("mode", "estimator", ["estimator", "plain"], "How it is trained.")
run_flags.define_positive("learning_rate", 0.03, "Of K-FAC.")
run_flags.define_momentum(0.9, "Of K-FAC.")
run_flags.define_positive("damping", 0.03, "Of K-FAC.")


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = run_flags.read()
    params = {name: FLAGS[name].value for name in ("learning_rate", "momentum", "damping")}
    with cli.bad_input():
        unused_flags.refuse(
            unused_flags.without_effect(
                ["progress", "profile_steps", "dry_run"],
                needs="--mode=estimator",
                met=FLAGS.mode == "estimator",
            )
        )
        data = mnist.load(settings.data_dir)
        model_dir.claim(settings.model_dir, f"an MLP in mode {FLAGS.mode} on {data.size}")

    cli.import_tensorflow()
    from examples import mlp_model, training  # noqa: PLC0415

    if FLAGS.mode == "plain":
        with cli.bad_input():
            plan = training.plan_one_device(settings)
        training.show_plan(plan, data, settings.batch_size, params)
        mlp_model.train_in_plain_graph(data, settings, params)
    else:
        training.run(mlp_model.model_fn, data, settings, params, f"MLP on {data.name}, K-FAC")


if __name__ == "__main__":
    cli.run(main)
