"""Trains a generative adversarial network on images of digits: two optimizers, on two towers.

    python -m examples.gan

Draws samples.png in the model directory, and says how far, pixel by pixel, samples are from the
nearest training image, and test images from the nearest sample. The former tells of bad samples,
the latter also of samples that are all alike.
"""

from absl import flags

from examples import cli, mnist, model_dir, run_flags

SAMPLES = 1000
SHOWN = 60

FLAGS = flags.FLAGS
run_flags.define(model_dir="runs/gan", batch_size=128, train_steps=6000, eval_every_steps=2000)
run_flags.define_positive("learning_rate", 0.001, "Of both optimizers.")


def main() -> None:
    """Trains, measures and draws, as the flags say."""
    settings = run_flags.read()
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        model_dir.claim(settings.model_dir, f"a GAN of {data.size}")

    cli.import_tensorflow()
    from examples import gan_model, gan_samples, pictures, training  # noqa: PLC0415

    shape = data.train.images.shape[1:]
    params = {"learning_rate": FLAGS.learning_rate, "image_shape": shape}
    title = f"GAN of {data.name}, Adam"
    estimator = training.run(gan_model.model_fn, data, settings, params, title)
    samples = gan_samples.draw(estimator, SAMPLES, settings.seed)
    for what, distance in gan_samples.distances(samples, data).items():
        cli.show(what, f"{distance:.2f}")
    picture = f"{settings.model_dir}/samples.png"
    pictures.draw_samples(samples[:SHOWN], picture, f"samples of a GAN of {data.name}")
    cli.show("picture", picture)


if __name__ == "__main__":
    cli.run(main)
