"""Classifies a table by a linear model of categories plus a network of numbers, on two towers.

    python -m examples.wide_and_deep

The linear model sees the first ten columns as categories, each cut into five buckets, and pairs of
the first three as crossed categories. The network sees all columns as numbers, and embeddings of
the pairs. The sum of both gives the logits. FTRL trains the linear model, Adagrad the network.

Prints the accuracy of scikit-learn's LogisticRegression on the same rows. Draws the curves.

Reference: Cheng et al. (2016), "Wide & Deep Learning for Recommender Systems".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from absl import flags
from tqdm import tqdm

import replicate
from examples import cli, tables
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")

FLAGS = flags.FLAGS

_EVAL_BATCH = 500
_BUCKETIZED = 10
_BUCKETS = 5
_CROSSED = 3
_HASH_BUCKETS = 25
_EMBEDDING = 2


class Columns(NamedTuple):
    """Feature columns of the linear model and of the network."""

    linear: list[Any]
    deep: list[Any]


def make_columns(table: tables.Table) -> Columns:
    """Makes the feature columns of a table, whose training set gives buckets and means."""
    buckets = [
        tables.bucketized_column(table, key, _BUCKETS) for key in table.columns[:_BUCKETIZED]
    ]
    crossed = [
        tf.feature_column.crossed_column(pair, _HASH_BUCKETS)
        for pair in itertools.combinations(buckets[:_CROSSED], 2)
    ]
    embedded = [tf.feature_column.embedding_column(pair, _EMBEDDING) for pair in crossed]
    return Columns([*buckets, *crossed], [*tables.numeric_columns(table), *embedded])


def make_estimator(
    table: tables.Table, devices: Sequence[str] | None, progress: str
) -> replicate.DNNLinearCombinedClassifier:
    """Makes the Estimator that the flags describe."""
    columns = make_columns(table)
    v1 = tf.compat.v1
    return replicate.DNNLinearCombinedClassifier(
        FLAGS.model_dir,
        linear_feature_columns=columns.linear,
        linear_optimizer=lambda: v1.train.FtrlOptimizer(
            FLAGS.linear_learning_rate, l1_regularization_strength=FLAGS.l1
        ),
        dnn_feature_columns=columns.deep,
        dnn_optimizer=lambda: v1.train.AdagradOptimizer(FLAGS.learning_rate),
        dnn_hidden_units=[int(units) for units in FLAGS.hidden_units],
        n_classes=table.classes,
        config=replicate.RunConfig(
            tf_random_seed=FLAGS.seed,
            save_summary_steps=5,
            save_checkpoints_steps=FLAGS.eval_every_steps,  # Each checkpoint is evaluated.
            progress=progress,
            continue_input=True,  # A second run reads on where the first one stopped.
            steal_model_dir=FLAGS.steal,
        ),
        devices=devices,
    )


def train_and_evaluate(
    estimator: replicate.Estimator, evaluator: replicate.Estimator, table: tables.Table
) -> dict[str, float]:
    """Trains up to --train_steps, and evaluates on the way and at the end.

    Writes config.json when training begins.

    Returns:
      The accuracy of each set at the end, by its name, "train" or "test".
    """
    from examples import training  # noqa: PLC0415
    from examples.config_record import ConfigRecord  # noqa: PLC0415

    step = cli.step_of(estimator)
    cli.show_start(estimator.latest_checkpoint(), step, estimator.model_dir, FLAGS.train_steps)
    every, train_steps = FLAGS.eval_every_steps, FLAGS.train_steps
    if step >= train_steps:
        return evaluate(evaluator, table)
    evaluations = training.EvaluateCheckpoints(
        lambda: evaluate(evaluator, table), every, train_steps, step
    )
    for last in training.ends_of_training(step, every, train_steps):
        estimator.train(
            lambda: tables.input_fn(
                table, table.train, FLAGS.batch_size, training=True, seed=FLAGS.seed
            ),
            hooks=[ConfigRecord(estimator)],
            max_steps=last,
            saving_listeners=[evaluations],
        )
    return dict(evaluations.results)


def evaluate(estimator: replicate.Estimator, table: tables.Table) -> dict[str, float]:
    """Evaluates on both sets, and prints one line.

    Returns:
      The accuracy of each set by its name, "train" or "test".
    """
    results = {
        part: estimator.evaluate(
            lambda rows=rows: tables.input_fn(table, rows, _EVAL_BATCH, training=False), name=part
        )
        for part, rows in (("train", table.train), ("test", table.test))
    }
    texts = [
        f"{part} loss {result['average_loss']:.4f} accuracy {result['accuracy']:.3f}"
        for part, result in results.items()
    ]
    with tqdm.external_write_mode():  # Takes the bar of training off the terminal meanwhile.
        cli.show("evaluation", f"step {results['test']['global_step']}   {'   '.join(texts)}")
    return {part: float(result["accuracy"]) for part, result in results.items()}


def define_flags() -> None:
    """Defines the flags of the program."""
    flags.DEFINE_enum("table", "breast_cancer", tables.NAMES, "Table of scikit-learn.")
    flags.DEFINE_string("model_dir", "runs/wide_and_deep", "For checkpoints, events and pictures.")
    flags.DEFINE_integer("num_towers", None, "Default: one for each GPU, but at least 2.", 1)
    flags.DEFINE_list("devices", None, "One for each tower. Default: GPUs if enough, else CPUs.")
    cli.define_hidden_units(["16"])
    cli.define_positive("learning_rate", 0.05, "Of Adagrad, for the network.")
    cli.define_positive("linear_learning_rate", 0.05, "Of FTRL, for the linear model.")
    flags.DEFINE_float("l1", 0.01, "L1 penalty of the linear model, as FTRL scales it.", 0.0)
    cli.define_batch_size(64, "Rows in a step, over all towers together.")
    flags.DEFINE_integer("train_steps", 300, "The step to train to.", 1)
    flags.DEFINE_integer("eval_every_steps", 100, "Steps between two evaluations.", 1)
    cli.define_seed("Of the first weights and the order of the rows.")
    flags.DEFINE_enum("progress", "auto", ["auto", "bar", "log", "off"], "How progress is shown.")
    cli.define_steal()


def main() -> None:
    """Trains, evaluates and draws, as the flags say."""
    with cli.bad_input():
        table = tables.load(FLAGS.table)
        if FLAGS.batch_size > len(table.train.labels):
            raise ValueError(
                f"--batch_size={FLAGS.batch_size} is more than the {len(table.train.labels)} rows "
                "to train on"
            )
        units = "x".join(FLAGS.hidden_units)
        cli.claim_model_dir(FLAGS.model_dir, f"a network of {units} units for {table.name}")

    cli.import_tensorflow()
    from examples import curves, training  # noqa: PLC0415

    with cli.bad_input():
        plan = training.plan_towers(FLAGS.num_towers, FLAGS.devices)
        estimator = make_estimator(table, plan.towers, FLAGS.progress)
        evaluator = make_estimator(table, None, "off")  # Checkpoints fit any number of towers.
    rows = f"{len(table.train.labels)} rows to train on, {len(table.test.labels)} to test on"
    training.show_devices(plan, FLAGS.progress)
    cli.show("data", f"{table.name}: {rows}, {len(table.columns)} columns")
    with cli.training_errors(estimator):
        accuracies = train_and_evaluate(estimator, evaluator, table)
    for part, accuracy in accuracies.items():
        cli.show(f"{part} accuracy", f"{accuracy:.3f}")
    rival = tables.logistic_regression_accuracy(table)
    cli.show("scikit-learn", f"{rival:.3f}   test accuracy of its LogisticRegression")
    cli.show("checkpoint", estimator.latest_checkpoint())
    picture = f"{estimator.model_dir}/curves.png"
    title = f"Wide and deep on {table.name}, towers: {len(plan.towers)}"
    curves.draw(curves.read(estimator.model_dir), picture, title)
    cli.show("curves", picture)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
