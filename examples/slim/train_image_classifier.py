r"""Trains an image classifier: any network, dataset and optimizer of this folder, on many devices.

    python -m examples.slim.train_image_classifier --dataset_name=digits --model_name=lenet \
        --num_clones=2 --clone_on_cpu --train_dir=runs/lenet --max_number_of_steps=200 \
        --optimizer=adam --opt_epsilon=1e-8 --learning_rate=0.001

Run it again and it goes on from its last checkpoint. In a cluster start one process per task, with
TF_CONFIG, with --worker_hosts, --ps_hosts, --job_name and --task, or with --master. Exit codes:
0 done, 1 bug, 2 flags or files that cannot be used, 3 diverged, 130 or 143 stopped after saving,
138 other processes of the cluster cannot be reached.
"""

from typing import Any

from absl import flags

from examples import cli
from examples.slim.image_classifier import data_flags

FLAGS = flags.FLAGS
string, integer, boolean = flags.DEFINE_string, flags.DEFINE_integer, flags.DEFINE_bool
number = data_flags.define_number

# The run.
string("master", "", "Address of a server that runs already, such as grpc://host:2222.")
string("train_dir", "runs/tfmodel", "Where checkpoints and events go.")
integer("task", 0, "Number of this process in its job. Worker 0 writes the checkpoints.", 0)
integer("log_every_n_steps", 10, "Steps between two lines on the terminal.", 1)
number("save_summaries_secs", 600, "Seconds between two summaries; 0 for none.")
number("save_interval_secs", 600, "Seconds between two checkpoints.", above=True)
integer("max_number_of_steps", None, "The step to train to. Default: no end.", 1)
cli.define_steal()
cli.define_seed("Of the first weights, the order of the images, and what is random in them.")

# Devices and the cluster.
integer("worker_replicas", 1, "Processes that train; for --master.", 1, cli.LARGEST_SIZE)
integer("num_ps_tasks", 0, "Parameter servers; for --master.", 0, cli.LARGEST_SIZE)
flags.DEFINE_list("worker_hosts", None, "Addresses of the workers, host:port, the chief first.")
flags.DEFINE_list("ps_hosts", None, "Addresses of the parameter servers, host:port.")
flags.DEFINE_enum("job_name", "worker", ["worker", "ps"], "What this process is; for the hosts.")

# Images and network.
data_flags.define(split_name="train", batch_size=32, progress_of="each clone trains on in a step")
integer("num_readers", 4, "Files that are read at the same time.", 1, cli.LARGEST_SIZE)
data_flags.define_image_size("train_image_size")

# The optimizer.
OPTIMIZERS = ["adadelta", "adagrad", "adam", "ftrl", "kfac", "momentum", "rmsprop", "sgd"]
DECAY_TYPES = ["exponential", "fixed", "polynomial"]
flags.DEFINE_enum("optimizer", "rmsprop", OPTIMIZERS, "What trains the model.")
number("weight_decay", 0.00004, "Strength of the L2 penalty on the weights.")
number("adadelta_rho", 0.95, "Weight of the past in the averages of adadelta.")
number("adagrad_initial_accumulator_value", 0.1, "What the sums of adagrad begin with.", above=True)
number("adam_beta1", 0.9, "Weight of the past in the average of gradients of adam.")
number("adam_beta2", 0.999, "The same for their squares.")
number("opt_epsilon", 1.0, "Added to a divisor in adadelta, adam and rmsprop.", above=True)
flags.DEFINE_float("ftrl_learning_rate_power", -0.5, "At most 0.", None, 0.0)
number("ftrl_initial_accumulator_value", 0.1, "What the sums of ftrl begin with.")
number("ftrl_l1", 0.0, "Strength of the L1 penalty of ftrl.")
number("ftrl_l2", 0.0, "Strength of the L2 penalty of ftrl.")
number("momentum", 0.9, "Of momentum only.")
number("rmsprop_momentum", 0.9, "Of rmsprop.")
number("rmsprop_decay", 0.9, "Weight of the past in the average of rmsprop.")
number("kfac_damping", 0.01, "Of kfac: added to the curvature.", above=True)
number("kfac_momentum", 0.9, "Of kfac.")
number("kfac_cov_ema_decay", 0.95, "Weight of the past in the curvature of kfac.")
number("kfac_norm_constraint", 0.001, "Bound of the squared Fisher norm of a step.", above=True)
integer("kfac_invert_every", 10, "Steps between two inversions.", 1, 2**31 - 1)
integer("kfac_cov_update_every", 1, "Steps between two updates of the curvature.", 1, 2**31 - 1)
data_flags.define_gone("quantize_delay", -1, "TensorFlow 2 cannot rewrite a graph to quantize it.")
boolean("summarize_gradients", False, "Whether TensorBoard shows the gradients.")

# The learning rate.
number("learning_rate", 0.01, "At the beginning.", above=True)
flags.DEFINE_enum("learning_rate_decay_type", "exponential", DECAY_TYPES, "Its course.")
number("end_learning_rate", 0.0001, "Where polynomial decay ends.")
number("learning_rate_decay_factor", 0.94, "Of each exponential decay.", above=True)
number("num_epochs_per_decay", 2.0, "Epochs of batch_size images per step.", above=True)
number("warmup_epochs", 0.0, "Epochs in which the learning rate rises from 0.")
boolean("count_clones_in_epochs", False, "Whether an epoch has num_clones times fewer steps.")
number("label_smoothing", 0.0, "Share of the targets that is spread over all classes.")

# Replicas that wait for each other.
boolean("sync_replicas", False, "Whether the replicas make a step together.")
integer("replicas_to_aggregate", 1, "How many of them a step waits for.", 1, 2**31 - 1)

# Fine-tuning.
string("checkpoint_path", None, "What to begin with: a checkpoint, or a directory of them.")
string("checkpoint_exclude_scopes", None, "Scopes that begin anew all the same, with commas.")
string("trainable_scopes", None, "Scopes to train, with commas. Default: everything.")
boolean("ignore_missing_vars", False, "Whether variables that it lacks begin anew.")

USED_WITH = {
    "optimizer": {"opt_epsilon": ["adadelta", "adam", "rmsprop"]}
    | {name: [name.split("_")[0]] for name in FLAGS if name.split("_")[0] in OPTIMIZERS},
    "learning_rate_decay_type": {
        "end_learning_rate": ["polynomial"],
        "learning_rate_decay_factor": ["exponential"],
        "num_epochs_per_decay": ["exponential", "polynomial"],
    },
}
"""Name of a flag -> name of another one -> values of the former with which that has an effect."""


def main() -> None:
    """Finds out what this process is for, and does it."""
    cli.import_tensorflow()
    import replicate  # noqa: PLC0415
    from examples.slim.image_classifier import cluster  # noqa: PLC0415

    with cli.bad_input():
        check_role()
        config = cluster.run_config(
            data_flags.read(cluster.ClusterFlags),
            model_dir=FLAGS.train_dir,
            tf_random_seed=FLAGS.seed,
            save_summary_steps=None,  # They go by seconds: see `summaries.py`.
            save_checkpoints_secs=FLAGS.save_interval_secs,
            log_step_count_steps=FLAGS.log_every_n_steps,
            steal_model_dir=FLAGS.steal,
            progress="off",  # `reports.py` prints a line every so many steps.
        )
    cli.show("role", cluster.describe(config))
    try:
        if config.task_type == replicate.TaskType.PS:
            cluster.serve(config)
        else:
            train(config)
    except (data_flags.FlagError, replicate.CheckpointError) as error:
        cli.fail(str(error), cli.BAD_INPUT)
    except replicate.ModelDirInUseError as error:
        cli.fail_in_use(error)
    except replicate.ClusterError as error:
        cli.fail(str(error), error.code)


def check_role() -> None:
    """Raises ValueError if this process is not the chief by flags, and would train all the same."""
    hosts = bool(FLAGS.worker_hosts or FLAGS.ps_hosts)
    cli.refuse_unused_flags(
        cli.flags_without_effect(
            ["job_name"],
            needs="--worker_hosts and --ps_hosts",
            met=hosts or FLAGS.job_name == "worker",
        ),
        cli.flags_without_effect(
            ["task"],
            needs="--worker_hosts and --ps_hosts, or --master",
            met=hosts or bool(FLAGS.master) or FLAGS.task == 0,
        ),
    )


def unused() -> list[str]:
    """Returns what flags have no effect, in words; slim's program says nothing, and trains."""
    found = data_flags.unused()
    for chooser, flags_of in USED_WITH.items():
        for name, values in flags_of.items():
            needs = f"--{chooser}={' or '.join(values)}"
            is_met = FLAGS[chooser].value in values
            found += cli.flags_without_effect([name], needs=needs, met=is_met)
    return [
        *found,
        *cli.flags_without_effect(
            ["replicas_to_aggregate"], needs="--sync_replicas", met=FLAGS.sync_replicas
        ),
        *cli.flags_without_effect(
            ["checkpoint_exclude_scopes", "ignore_missing_vars"],
            needs="--checkpoint_path",
            met=FLAGS.checkpoint_path is not None,
        ),
    ]


def train(config: Any) -> None:
    """Trains in this process, with others or alone."""
    import replicate  # noqa: PLC0415
    from examples.config_record import ConfigRecord  # noqa: PLC0415
    from examples.slim.datasets.dataset import Reading  # noqa: PLC0415
    from examples.slim.image_classifier import cluster, problem, training  # noqa: PLC0415
    from examples.slim.image_classifier.input_errors import input_errors  # noqa: PLC0415
    from replicate.estimator.checkpoints.model_dir import prepare_model_dir  # noqa: PLC0415

    with cli.bad_input():
        deployment = cluster.deployment(config, FLAGS.num_clones, FLAGS.clone_on_cpu)
        posed = problem.pose(data_flags.read(problem.ProblemFlags), FLAGS.train_image_size, True)
        cluster.check_dataset(config, posed.dataset)
        begun = replicate.Estimator(training.model_fn, config=config).latest_checkpoint()
        estimator = replicate.Estimator(
            training.model_fn,
            config=config.replace(save_input_position=posed.dataset.in_memory),
            params=training_settings(posed, deployment, config.is_chief and begun is None),
        )
        step = cli.step_of(estimator)
        if config.is_chief:
            prepare_model_dir(estimator.model_dir)
    reading = Reading(
        training=True,
        seed=FLAGS.seed,
        num_readers=FLAGS.num_readers,
        shuffle_buffer=20 * FLAGS.batch_size,
        num_shards=deployment.num_replicas,
        shard_index=deployment.replica_id,
    )
    batch_rows = FLAGS.batch_size * FLAGS.num_clones
    cli.show("devices", cluster.describe_devices(deployment))
    cli.show("data", posed)
    for text in unused():
        cli.show("unused flag", text)
    cli.show("batch", f"{batch_rows} = {FLAGS.num_clones} x {FLAGS.batch_size}")
    cli.show_start(begun, step, estimator.model_dir, FLAGS.max_number_of_steps)
    if begun and FLAGS.checkpoint_path:
        cli.show("fine-tuning", "not again: this run goes on from its own checkpoint")
    with cli.training_errors(estimator), input_errors(posed.dataset):
        cluster.train(
            estimator,
            lambda: posed.batches(reading, batch_rows),
            FLAGS.max_number_of_steps,
            [ConfigRecord(estimator, params=estimator.params)] if config.is_chief else [],
        )
    if config.is_chief:
        cli.show("checkpoint", estimator.latest_checkpoint())
        cli.show("events", f"look at them with: tensorboard --logdir {estimator.model_dir}")


def training_settings(posed: Any, deployment: Any, begins: bool) -> Any:
    """Returns what the flags say of the model and how it is trained.

    Raises:
      ValueError: The learning rate cannot follow epochs that are so short, or there is no
        checkpoint to begin with.
    """
    from examples.slim.image_classifier import checkpoints, clones, fine_tuning, schedules  # noqa: PLC0415
    from examples.slim.image_classifier import training as model  # noqa: PLC0415
    from examples.slim.image_classifier.optimizers import OptimizerSettings  # noqa: PLC0415

    schedule = data_flags.read(schedules.Schedule)
    epoch_steps = schedules.steps_per_epoch(
        posed.dataset.num_samples,
        FLAGS.batch_size,
        (FLAGS.replicas_to_aggregate if FLAGS.sync_replicas else 1)
        * (FLAGS.num_clones if FLAGS.count_clones_in_epochs else 1),
    )
    schedules.check(schedule, epoch_steps)
    tunes = begins and FLAGS.checkpoint_path is not None
    if tunes:
        checkpoints.newest(FLAGS.checkpoint_path)
    return model.TrainingSettings(
        network=clones.Network(
            model_name=FLAGS.model_name,
            num_classes=posed.num_classes,
            weight_decay=FLAGS.weight_decay,
            label_smoothing=FLAGS.label_smoothing,
        ),
        deployment=deployment,
        schedule=schedule,
        epoch_steps=epoch_steps,
        optimizer=data_flags.read(OptimizerSettings),
        fine_tuning=data_flags.read(fine_tuning.FineTuning) if tunes else None,
        trainable_scopes=FLAGS.trainable_scopes,
        moving_average_decay=FLAGS.moving_average_decay,
        sync_replicas=FLAGS.sync_replicas,
        replicas_to_aggregate=FLAGS.replicas_to_aggregate,
        summarize_gradients=FLAGS.summarize_gradients,
        save_summaries_secs=FLAGS.save_summaries_secs,
        log_every_n_steps=FLAGS.log_every_n_steps,
        batch_rows=FLAGS.batch_size * deployment.num_clones,
    )


if __name__ == "__main__":
    cli.run(main)
