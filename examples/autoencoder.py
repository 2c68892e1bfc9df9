"""Trains a deep autoencoder on images of digits, on two towers, with K-FAC that adapts by itself.

    python -m examples.autoencoder

There is neither a learning rate nor a momentum to choose. Draws autoencoder.png in the model
directory: test images above what the network makes of them, and where it puts each digit.
"""

from absl import flags

from examples import cli, mnist, model_dir, run_flags

FLAGS = flags.FLAGS
run_flags.define(model_dir="runs/autoencoder", batch_size=512, train_steps=100, eval_every_steps=50)
run_flags.define_positive("damping", 0.1, "At first, in multiples of the mean curvature.")


def main() -> None:
    """Trains, evaluates and draws, as the flags say."""
    settings = run_flags.read()
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        model_dir.claim(settings.model_dir, f"an autoencoder of {data.size}")

    cli.import_tensorflow()
    from examples import autoencoder_model, pictures, training  # noqa: PLC0415

    params = {"damping": FLAGS.damping}
    title = f"Autoencoder of {data.name}, K-FAC"
    estimator = training.run(autoencoder_model.model_fn, data, settings, params, title)
    predictions = list(
        estimator.predict(lambda: mnist.input_fn(*data.test, training.EVAL_BATCH, training=False))
    )
    picture = f"{settings.model_dir}/autoencoder.png"
    pictures.draw_autoencoder(
        data.test,
        [prediction["image"] for prediction in predictions],
        [prediction["code"] for prediction in predictions],
        picture,
    )
    cli.show("picture", picture)


if __name__ == "__main__":
    cli.run(main)
