r"""Evaluates an image classifier: Accuracy and Recall_5 over a whole dataset, on many devices.

    python -m examples.slim.eval_image_classifier --dataset_name=digits --model_name=lenet \
        --checkpoint_path=runs/lenet --eval_dir=runs/lenet

Evaluates the newest checkpoint once or, with --eval_interval_secs, each one that comes until no
more do. Every image counts once, whatever the number of clones. Exit codes: 0 done, 1 bug, 2 flags
or files that cannot be used.
"""

from collections.abc import Callable

from absl import flags

from examples import cli
from examples.slim.image_classifier import data_flags

FLAGS = flags.FLAGS
string, integer = flags.DEFINE_string, flags.DEFINE_integer

data_flags.define(
    split_name="test", batch_size=100, progress_of="are evaluated at a time, by all clones"
)
string("checkpoint_path", "runs/tfmodel", "A checkpoint, or the folder of them.")
string("eval_dir", "runs/tfmodel", "Events go into the folder eval in it.")
integer("max_num_batches", None, "Batches to evaluate. Default: all images.", 1)
data_flags.define_image_size("eval_image_size")
data_flags.define_number(
    "eval_interval_secs", 0, "Above 0: go on with newer checkpoints, one in so many seconds."
)
data_flags.define_number(
    "timeout_secs", 3600, "Seconds without a newer checkpoint after which it ends; 0: never."
)
flags.DEFINE_enum("progress", "auto", ["auto", "bar", "log", "off"], "How progress is shown.")
data_flags.define_gone("quantize", False, "TensorFlow 2 cannot rewrite a graph to quantize it.")
data_flags.define_gone("master", "", "Evaluation runs in this process.")


def main() -> None:
    """Evaluates as the flags say."""
    cli.import_tensorflow()
    import replicate  # noqa: PLC0415
    from examples.slim.datasets.dataset import Reading  # noqa: PLC0415
    from examples.slim.image_classifier import checkpoints, cluster, evaluation, problem  # noqa: PLC0415
    from examples.slim.image_classifier.clones import Network  # noqa: PLC0415
    from examples.slim.image_classifier.input_errors import input_errors  # noqa: PLC0415

    with cli.bad_input():
        cli.refuse_unused_flags(
            cli.flags_without_effect(
                ["timeout_secs"],
                needs="--eval_interval_secs",
                met=bool(FLAGS.eval_interval_secs),
            )
        )
        config = cluster.alone(model_dir=FLAGS.eval_dir, progress=FLAGS.progress)
        deployment = cluster.deployment(config, FLAGS.num_clones, FLAGS.clone_on_cpu)
        posed = problem.pose(data_flags.read(problem.ProblemFlags), FLAGS.eval_image_size, False)
        found = "" if FLAGS.eval_interval_secs else checkpoints.newest(FLAGS.checkpoint_path)
    settings = evaluation.EvaluationSettings(
        network=Network(model_name=FLAGS.model_name, num_classes=posed.num_classes),
        deployment=deployment,
        moving_average_decay=FLAGS.moving_average_decay,
    )
    estimator = replicate.Estimator(evaluation.model_fn, config=config, params=settings)
    cli.show("devices", cluster.describe_devices(deployment))
    cli.show("data", posed)
    for text in data_flags.unused():
        cli.show("unused flag", text)
    cli.show("batch", f"{FLAGS.batch_size} images")

    def evaluate(checkpoint: str) -> None:
        if FLAGS.moving_average_decay is not None:
            evaluation.check_averages(checkpoint)
        with input_errors(posed.dataset):
            results = estimator.evaluate(
                lambda: posed.batches(Reading(training=False), FLAGS.batch_size),
                steps=FLAGS.max_num_batches,
                checkpoint_path=checkpoint,
            )
        numbers = (f"{name} {results[name]:.4f}" for name in evaluation.METRICS)
        cli.show(f"step {results['global_step']}", "   ".join([*numbers, checkpoint]))

    try:
        if not FLAGS.eval_interval_secs:
            evaluate(found)
        else:
            follow(evaluate)
    except (data_flags.FlagError, replicate.CheckpointError) as error:
        cli.fail(str(error), cli.BAD_INPUT)
    cli.show("events", f"look at them with: tensorboard --logdir {FLAGS.eval_dir}")


def follow(evaluate: Callable[[str], None]) -> None:
    """Evaluates each new checkpoint until none comes any more.

    Raises:
      FlagError: None has come at all.
    """
    import replicate  # noqa: PLC0415
    from examples.slim.image_classifier import checkpoints  # noqa: PLC0415

    count = 0
    for checkpoint in checkpoints.following(
        FLAGS.checkpoint_path, FLAGS.eval_interval_secs, FLAGS.timeout_secs
    ):
        count += 1
        try:
            evaluate(checkpoint)
        except replicate.CheckpointError as error:  # Training may have deleted it meanwhile.
            cli.show("passed over", error)
    if not count:
        raise data_flags.FlagError(
            f"No checkpoint has come to {FLAGS.checkpoint_path} in {FLAGS.timeout_secs:g} seconds. "
            "Correct --checkpoint_path, or wait longer by --timeout_secs."
        )
    cli.show("end", f"no newer checkpoint for {FLAGS.timeout_secs:g} seconds")


if __name__ == "__main__":
    cli.run(main)
