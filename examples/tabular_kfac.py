"""Compares K-FAC with Adagrad on a table: one canned estimator, two optimizers, two towers.

    python -m examples.tabular_kfac

A DNNClassifier is trained twice on the same batches, from the same weights. K-FAC is one argument:
`optimizer=kfac.for_canned(...)`, which registers the layers. Each step takes all rows of the
training set, unless --batch_size says otherwise.

Draws the losses on the training set and on the test set against the step, and prints the accuracy
of scikit-learn's LogisticRegression on the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from absl import flags

import replicate
from examples import cli, tables
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")
kfac = LazyModule("kfac")

FLAGS = flags.FLAGS

NAMES = ("Adagrad", "K-FAC")

_EVAL_BATCH = 500


def make_optimizer(name: str) -> Any:
    """Returns one of the optimizers `NAMES`."""
    if name == "K-FAC":
        return kfac.for_canned(learning_rate=FLAGS.learning_rate, damping=FLAGS.damping)
    return lambda: tf.compat.v1.train.AdagradOptimizer(FLAGS.adagrad_learning_rate)


def make_estimator(
    table: tables.Table,
    optimizer: Any,
    model_dir: str,
    devices: Sequence[str] | None,
    progress: str,
) -> replicate.DNNClassifier:
    """Makes an Estimator of the network that the flags describe."""
    return replicate.DNNClassifier(
        [int(units) for units in FLAGS.hidden_units],
        tables.numeric_columns(table),
        model_dir,
        n_classes=table.classes,
        optimizer=optimizer,
        config=replicate.RunConfig(
            tf_random_seed=FLAGS.seed, progress=progress, steal_model_dir=FLAGS.steal
        ),
        devices=devices,
    )


def train(
    estimator: replicate.Estimator,
    evaluator: replicate.Estimator,
    table: tables.Table,
    batch_size: int,
) -> None:
    """Trains up to --train_steps, and evaluates on both sets during training.

    Writes config.json into --model_dir when training begins.
    """
    from examples.config_record import ConfigRecord  # noqa: PLC0415

    record = ConfigRecord(estimator, FLAGS.model_dir, table=table.name)
    evaluations = [
        replicate.InMemoryEvaluatorHook(
            evaluator,
            lambda rows=rows: tables.input_fn(table, rows, _EVAL_BATCH, training=False),
            name=part,
            every_n_iter=FLAGS.eval_every_steps,
        )
        for part, rows in (("train", table.train), ("test", table.test))
    ]
    estimator.train(
        lambda: tables.input_fn(table, table.train, batch_size, training=True, seed=FLAGS.seed),
        max_steps=FLAGS.train_steps,
        hooks=[record, *evaluations],
    )


def define_flags() -> None:
    """Defines the flags of the program."""
    flags.DEFINE_enum("table", "breast_cancer", tables.NAMES, "Table of scikit-learn.")
    flags.DEFINE_string("model_dir", "runs/tabular_kfac", "A folder for each optimizer goes there.")
    flags.DEFINE_integer("num_towers", None, "Default: one for each GPU, but at least 2.", 1)
    flags.DEFINE_list("devices", None, "One for each tower. Default: GPUs if enough, else CPUs.")
    cli.define_hidden_units(["32", "16"])
    cli.define_positive("learning_rate", 0.1, "Of K-FAC.")
    cli.define_positive("damping", 0.1, "Of K-FAC.")
    cli.define_positive("adagrad_learning_rate", 0.2, "Of Adagrad.")
    cli.define_batch_size(None, "Rows in a step, over all towers together. Default: all rows.")
    flags.DEFINE_integer("train_steps", 40, "The step to train to.", 1)
    flags.DEFINE_integer("eval_every_steps", 5, "Steps between two evaluations.", 1)
    cli.define_seed("Of the first weights and the order of the rows.")
    flags.DEFINE_enum("progress", "auto", ["auto", "bar", "log", "off"], "How progress is shown.")
    cli.define_steal()


def main() -> None:
    """Trains with each optimizer, prints and draws, as the flags say."""
    with cli.bad_input():
        table = tables.load(FLAGS.table)
        rows = len(table.train.labels)
        batch_size = FLAGS.batch_size or rows
        if batch_size > rows:
            raise ValueError(
                f"--batch_size={batch_size} is more than the {rows} rows to train on: take "
                f"{rows} or less"
            )
        units = "x".join(FLAGS.hidden_units)
        for name in NAMES:
            purpose = f"a network of {units} units for {table.name}, by {name}"
            cli.claim_model_dir(f"{FLAGS.model_dir}/{name}", purpose)

    cli.import_tensorflow()
    from examples import curves, training  # noqa: PLC0415

    with cli.bad_input():
        plan = training.plan_towers(FLAGS.num_towers, FLAGS.devices)
    training.show_devices(plan, FLAGS.progress)
    cli.show("data", f"{table.name}: {rows} rows to train on, {len(table.test.labels)} to test on")
    found = {}
    for name in NAMES:
        folder, optimizer = f"{FLAGS.model_dir}/{name}", make_optimizer(name)
        estimator = make_estimator(table, optimizer, folder, plan.towers, FLAGS.progress)
        evaluator = make_estimator(table, optimizer, folder, None, "off")
        with cli.training_errors(estimator):
            train(estimator, evaluator, table, batch_size)
        found[name] = curves.read(folder)
        parts = [
            f"{part} loss {found[name][part, 'loss'].values[-1]:.4f} "
            f"accuracy {found[name][part, 'accuracy'].values[-1]:.3f}"
            for part in ("train", "test")
        ]
        cli.show(name, "   ".join(parts))
    rival = tables.logistic_regression_accuracy(table)
    cli.show("scikit-learn", f"test accuracy {rival:.3f} of its LogisticRegression")
    picture = f"{FLAGS.model_dir}/curves.png"
    curves.compare(found, picture, f"A network on {table.name}, towers: {len(plan.towers)}")
    cli.show("curves", picture)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
