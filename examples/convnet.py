"""Trains a small ConvNet on images of digits, on several towers, with K-FAC.

    python -m examples.convnet                          two towers, K-FAC, scikit-learn's digits
    python -m examples.convnet --optimizer=momentum --num_towers=1 --model_dir=runs/momentum
    python -m examples.convnet --data_dir=DIR           MNIST's four IDX files, plain or .gz

Run it again and it goes on from its last checkpoint. Ctrl-C saves one before it ends. Exit codes:
0 done, 1 bug, 2 flags or files that cannot be used, 3 diverged, 130 or 143 stopped after saving.
"""

import math
import signal
import sys
from pathlib import Path

from absl import flags

from examples import mnist, terminal

LEARNING_RATES = {"kfac": 0.01, "momentum": 0.05, "adam": 0.01}

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "Folder of MNIST's IDX files. Default: the bundled digits.")
flags.DEFINE_string("model_dir", "runs/convnet", "Where checkpoints, events and curves.png go.")
flags.DEFINE_enum("optimizer", "kfac", list(LEARNING_RATES), "What trains the model.")
flags.DEFINE_integer("num_towers", None, "Default: one for each GPU, but at least 2.", 1)
flags.DEFINE_list("devices", None, "One for each tower. Default: GPUs if enough, else CPUs.")
flags.DEFINE_integer("batch_size", 128, "Images in a step, over all towers together.", 1)
flags.DEFINE_integer("train_steps", 300, "The step to train to.", 1)
flags.DEFINE_integer("eval_every_steps", 50, "Steps between two evaluations.", 1)
flags.DEFINE_float("learning_rate", None, f"Default: that of the optimizer in {LEARNING_RATES}.")
flags.DEFINE_float("momentum", 0.9, "Of kfac and momentum; beta1 of adam.")
flags.DEFINE_float("damping", 0.03, "Of kfac.")
flags.DEFINE_integer("seed", 0, "Of the first weights, the order of the images and sampling.")
flags.DEFINE_enum("progress", "auto", ["auto", "bar", "log", "off"], "How progress is shown.")
for positive in ("learning_rate", "damping"):
    flags.register_validator(
        positive, lambda x: x is None or (math.isfinite(x) and x > 0), "must be a number above 0"
    )
flags.register_validator("momentum", lambda x: 0 <= x < 1, "must be at least 0 and below 1")


def main() -> None:
    """Trains, evaluates and draws, as the flags say."""
    params = {
        "optimizer": FLAGS.optimizer,
        "learning_rate": FLAGS.learning_rate or LEARNING_RATES[FLAGS.optimizer],
        "momentum": FLAGS.momentum,
    }
    if FLAGS.optimizer == "kfac":
        params["damping"] = FLAGS.damping
    with terminal.bad_input():
        data = mnist.load(FLAGS.data_dir)
        height, width = data.train.images.shape[1:3]
        claim_model_dir(FLAGS.model_dir, f"{FLAGS.optimizer} on images of {height}x{width}")

    terminal.import_tensorflow()
    import replicate  # noqa: PLC0415
    from examples import convnet_model, training  # noqa: PLC0415

    with terminal.bad_input():
        plan = training.plan_towers(FLAGS.num_towers, FLAGS.devices)
        training.check_batch_size(FLAGS.batch_size, plan)
    towers = len(plan.towers)
    terminal.show("devices", plan)
    terminal.show(
        "data",
        f"{data.name}: {len(data.train.labels):,} images to train on, "
        f"{len(data.test.labels):,} to test on, {height}x{width}",
    )
    terminal.show("batch", f"{FLAGS.batch_size} = {towers} x {FLAGS.batch_size // towers}")
    terminal.show("settings", " ".join(f"{name}={value}" for name, value in params.items()))

    estimator = replicate.Estimator(
        replicate.replicate_model_fn(
            convnet_model.model_fn,
            loss_reduction=convnet_model.LOSS_REDUCTION,
            devices=plan.towers,
            uneven="weighted",  # for the last batch of an evaluation
        ),
        model_dir=FLAGS.model_dir,
        config=replicate.RunConfig(
            tf_random_seed=FLAGS.seed, save_summary_steps=5, progress=FLAGS.progress
        ),
        params=params,
    )
    try:
        results = training.train_and_evaluate(
            estimator,
            data,
            batch_size=FLAGS.batch_size,
            train_steps=FLAGS.train_steps,
            eval_every_steps=FLAGS.eval_every_steps,
            seed=FLAGS.seed,
        )
    except (replicate.TrainingInterrupted, KeyboardInterrupt) as stop:
        terminal.show("saved", estimator.latest_checkpoint() or "nothing yet")
        terminal.show("go on with", terminal.command())
        sys.exit(getattr(stop, "code", 128 + signal.SIGINT))
    except replicate.NonFiniteError as error:
        terminal.fail(f"training diverged: {error}", terminal.DIVERGED)
    except replicate.CheckpointError as error:
        terminal.fail(str(error), terminal.BAD_INPUT)
    title = f"ConvNet on {data.name}, {FLAGS.optimizer}, towers: {towers}"
    training.show_results(estimator, results, title)


def claim_model_dir(model_dir: str, purpose: str) -> None:
    """Makes the model directory, unless it is in use for something else.

    Raises:
      ValueError: It is a file, nothing can be written in it, or its checkpoints come from a run
        with another purpose: what they hold would not fit.
    """
    folder = Path(model_dir)
    note = folder / "trained_for.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = note.exists() and (folder / "checkpoint").exists()
        earlier = note.read_text() if in_use else purpose
        note.write_text(earlier)
    except OSError as error:
        raise ValueError(
            f"--model_dir={model_dir} cannot be written in: {error.filename}: {error.strerror}"
        ) from error
    if earlier != purpose:
        raise ValueError(
            f"--model_dir={model_dir} holds checkpoints of {earlier}, and this run is {purpose}; "
            "take another --model_dir, or delete that one"
        )


if __name__ == "__main__":
    terminal.run(main)
