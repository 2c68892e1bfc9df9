"""What the programs of this folder have in common: train, evaluate and export by flags."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf
from absl import app, flags

import replicate as estimator

FLAGS = flags.FLAGS
flags.DEFINE_integer("towers", 1, "Towers to train on, on the CPU.", 1)
flags.DEFINE_integer("steps", 200, "The step to train to.", 1)
flags.DEFINE_string("model_dir", None, "Where checkpoints and events go. Default: a new folder.")
flags.DEFINE_string("export_dir", None, "Where the trained model is exported to. Default: nowhere.")


class Program(NamedTuple):
    """A model and its data.

    Attributes:
      model_fn: As an Estimator takes it; its optimizer is wrapped in TowerOptimizer.
      train_input_fn: Gives batches without end.
      eval_input_fn: Gives every test example once.
      serving_input_receiver_fn: What an exported model is fed with.
    """

    model_fn: Callable[..., Any]
    train_input_fn: Callable[[], Any]
    eval_input_fn: Callable[[], Any]
    serving_input_receiver_fn: Callable[[], Any]


def make_estimator(program: Program, model_dir: str | None, towers: int) -> estimator.Estimator:
    """Returns the program's Estimator on a number of towers; all compute on the first CPU."""
    replicated = estimator.replicate_model_fn(
        program.model_fn,
        loss_reduction=tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
        devices=["/cpu:0"] * towers,
        uneven="weighted",
    )
    config = estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=1000)
    return estimator.Estimator(replicated, model_dir, config)


def run(program: Program) -> None:
    """Does what the flags say."""

    def main(_: list[str]) -> None:
        classifier = make_estimator(program, FLAGS.model_dir, FLAGS.towers)
        classifier.train(program.train_input_fn, max_steps=FLAGS.steps)
        results = classifier.evaluate(program.eval_input_fn)
        print(" ".join(f"{name}={value:.6g}" for name, value in sorted(results.items())))
        if FLAGS.export_dir:
            receive = program.serving_input_receiver_fn
            print("exported to", classifier.export_saved_model(FLAGS.export_dir, receive).decode())

    app.run(main)
