"""Shared command line of the programs of this folder: train, evaluate, export.

A program calls `parse_flags` before it imports TensorFlow, so that `--help` and a wrong flag are
answered at once, and `run` at its end. Exit codes are those of `examples.cli`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from absl import flags

from examples import cli

FLAGS = flags.FLAGS
flags.disclaim_key_flags()


class Program(NamedTuple):
    """A model and its data.

    Attributes:
      model_fn: As an Estimator takes it. Its optimizer is wrapped in TowerOptimizer, unless it
        belongs to a canned estimator, which does so itself.
      train_input_fn: Gives batches without end.
      eval_input_fn: Gives every test example once.
      serving_input_receiver_fn: Makes the inputs of an exported model.
    """

    model_fn: Callable[..., Any]
    train_input_fn: Callable[[], Any]
    eval_input_fn: Callable[[], Any]
    serving_input_receiver_fn: Callable[[], Any]


def parse_flags() -> None:
    """Defines the flags as those of the calling program, parses them, and imports TensorFlow."""
    flags.DEFINE_integer("towers", 1, "Towers to train on, on the CPU.", 1, 256)
    flags.DEFINE_integer("steps", 200, "The step to train to.", 1)
    flags.DEFINE_string("model_dir", None, "For checkpoints and events. Default: a new folder.")
    flags.DEFINE_string("export_dir", None, "For the exported model. Default: none is exported.")
    cli.parse_flags()
    cli.import_tensorflow()


def make_estimator(program: Program, model_dir: str | None, towers: int) -> Any:
    """Returns the program's Estimator on a number of towers; all compute on the first CPU."""
    import replicate as estimator  # noqa: PLC0415

    replicated = estimator.replicate_model_fn(
        program.model_fn, devices=["/cpu:0"] * towers, uneven="weighted"
    )
    config = estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=1000)
    return estimator.Estimator(replicated, model_dir, config)


def run(program: Program) -> None:
    """Does what the flags say."""
    cli.end_with(lambda: _train_evaluate_export(program))


def _train_evaluate_export(program: Program) -> None:
    from replicate.estimator.checkpoints.model_dir import prepare_model_dir  # noqa: PLC0415

    with cli.bad_input():
        classifier = make_estimator(program, FLAGS.model_dir, FLAGS.towers)
        prepare_model_dir(classifier.model_dir)
    with cli.training_errors(classifier):
        classifier.train(program.train_input_fn, max_steps=FLAGS.steps)
        results = classifier.evaluate(program.eval_input_fn)
    print(" ".join(f"{name}={value:.6g}" for name, value in sorted(results.items())))
    if FLAGS.export_dir:
        receive = program.serving_input_receiver_fn
        print("exported to", classifier.export_saved_model(FLAGS.export_dir, receive).decode())
