"""Training around a model: devices of the towers, evaluations on the way, printing.

`plan_towers` chooses devices, `make_estimator` makes the Estimator, `train_and_evaluate` trains
from the latest checkpoint on and evaluates new checkpoints, and `show_results` prints and draws the
results. `run` calls them in this order. Models, data and flags belong to the programs, such as
`examples/convnet.py`.
"""

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tqdm import tqdm

import model_deploy
import replicate
from examples import cli, curves, mnist
from examples.cli import RunSettings
from examples.config_record import ConfigRecord

v1 = tf.compat.v1
EVAL_BATCH = 500
_MOST_CPU_TOWERS = 256
_SUMMARY_STEPS = 5
_ROUNDING = 1e-4
Params = Mapping[str, Any]
"""Parameters of a model_fn: settings of its model and its optimizer."""

Results = Mapping[str, Mapping[str, float]]
"""Name of an evaluation ("train", "test") -> metric -> value."""


def run(
    model_fn: Callable[..., Any],
    data: mnist.Dataset,
    settings: RunSettings,
    params: Params,
    title: str,
    train_distribute: replicate.AllReduce | None = None,
) -> replicate.Estimator:
    """Trains a model_fn on towers, evaluates it on the way, prints and draws the results.

    If TF_CONFIG names a cluster, this process takes its role there. Exits with one line and an exit
    code if the flags do not fit, or training diverges or is stopped. Also exits after a dry run.

    Args:
      model_fn: Builds one tower. Its loss is a mean over the examples.
      data: Training set and test set.
      settings: Settings of the run.
      params: Of the model_fn.
      title: Of the picture of the curves; the number of towers is added.
      train_distribute: Lets the workers of a cluster without parameter servers train together.

    Returns:
      The trained Estimator.
    """
    with cli.bad_input():
        plan = plan_towers(settings.num_towers, settings.devices)
        check_batch_size(settings.batch_size, plan)
        estimator = make_estimator(model_fn, plan, settings, params, train_distribute)
    if settings.dry_run:
        dry_run(model_fn, plan, data, settings, params)
        sys.exit(0)
    if estimator.config.task_type != replicate.TaskType.PS:
        show_devices(plan, settings.progress)
        show_data(plan, data, settings.batch_size, params)
    train = train_in_cluster if estimator.config.cluster.jobs else train_and_evaluate
    with cli.training_errors(estimator):
        results = train(estimator, data, settings)
    if results:
        show_results(estimator, results, f"{title}, towers: {len(plan.towers)}")
    return estimator


def plan_towers(num_towers: int | None, devices: Sequence[str] | None) -> model_deploy.DevicePlan:
    """Chooses the number of towers and their devices.

    Towers go on GPUs if there are enough of them, else on the CPU, which is divided into that many
    logical devices unless it is already. TensorFlow fixes its devices when it first runs something.
    After that, towers take turns on the devices that there are.

    Args:
      num_towers: Number of towers. None means all GPUs, or 2 if there are fewer than two.
      devices: A device for each tower, or None to choose them here.

    Raises:
      ValueError: The two do not fit together, a device does not exist, or there are more towers
        than the CPU is divided into.
    """
    if devices and num_towers not in (None, len(devices)):
        raise ValueError(
            f"{num_towers} towers cannot go on --devices={','.join(devices)}, which are "
            f"{len(devices)}: leave out --num_towers, or name a device for each tower"
        )
    gpus = model_deploy.local_devices("GPU")
    count = len(devices or ()) or num_towers or max(2, len(gpus))
    if not devices and count <= len(gpus):
        return model_deploy.device_plan(gpus[:count])
    if count > _MOST_CPU_TOWERS:
        raise ValueError(
            f"--num_towers={count} is more than the {_MOST_CPU_TOWERS} that the CPU is divided into"
        )
    _divide_cpu(count)
    cpus = model_deploy.local_devices("CPU")
    return model_deploy.device_plan(devices or [cpus[tower % len(cpus)] for tower in range(count)])


def _divide_cpu(count: int) -> None:
    """Divides the CPU into `count` logical devices, if TensorFlow has not fixed its devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) < count:
        with contextlib.suppress(RuntimeError):
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * count
            )


def plan_one_device(settings: RunSettings) -> model_deploy.DevicePlan:
    """Plans for a plain graph, which TensorFlow places on one device.

    Raises:
      ValueError: The settings ask for towers.
    """
    if settings.num_towers not in (None, 1) or settings.devices:
        given = {"num_towers": settings.num_towers, "devices": ",".join(settings.devices or ())}
        wrong = " ".join(f"--{name}={value}" for name, value in given.items() if value)
        raise ValueError(
            f"a plain graph has no towers, got {wrong}: leave that out, or take another --mode"
        )
    return plan_towers(1, None)


def check_batch_size(batch_size: int, plan: model_deploy.DevicePlan) -> None:
    """Raises ValueError unless the towers can share the batch equally."""
    towers = len(plan.towers)
    if batch_size % towers:
        fitting = sorted({max(batch_size // towers, 1) * towers, -(-batch_size // towers) * towers})
        raise ValueError(
            f"--batch_size={batch_size} cannot be split into {towers} equal parts, one for each "
            f"tower; {' or '.join(map(str, fitting))} can"
        )


def show_plan(
    plan: model_deploy.DevicePlan, data: mnist.Dataset, batch_size: int, params: Params
) -> None:
    """Prints the devices, the data, how the batch is split, and the settings."""
    cli.show("devices", plan)
    show_data(plan, data, batch_size, params)


def show_devices(plan: model_deploy.DevicePlan, progress: str) -> None:
    """Prints the devices if the Estimator does not, because it shows no progress."""
    if progress == "off":
        cli.show("devices", plan)


def show_data(
    plan: model_deploy.DevicePlan, data: mnist.Dataset, batch_size: int, params: Params
) -> None:
    """Prints the data, how the batch is split, and the settings."""
    towers = len(plan.towers)
    height, width = data.train.images.shape[1:3]
    cli.show(
        "data",
        f"{data.name}: {len(data.train.labels):,} images to train on, "
        f"{len(data.test.labels):,} to test on, {height}x{width}",
    )
    cli.show("batch", f"{batch_size} = {towers} x {batch_size // towers}")
    cli.show("settings", " ".join(f"{name}={value}" for name, value in params.items()))


def make_estimator(
    model_fn: Callable[..., Any],
    plan: model_deploy.DevicePlan,
    settings: RunSettings,
    params: Params,
    train_distribute: replicate.AllReduce | None = None,
) -> replicate.Estimator:
    """Makes the Estimator of a model_fn on the towers of a plan.

    Raises:
      ValueError: TF_CONFIG is set, and wrong.
    """
    config = replicate.RunConfig(
        tf_random_seed=settings.seed,
        save_summary_steps=_SUMMARY_STEPS,
        progress=settings.progress,
        profile_steps=settings.profile_steps,
        continue_input=True,  # A second run reads on where the first one stopped.
        steal_model_dir=settings.steal,
        train_distribute=train_distribute,
    )
    save_every = _save_every(settings, in_cluster=bool(config.cluster.jobs))
    if save_every is not None:
        config = config.replace(save_checkpoints_steps=save_every, save_checkpoints_secs=None)
    return replicate.Estimator(
        replicate.replicate_model_fn(
            model_fn,
            loss_reduction=v1.losses.Reduction.MEAN,
            devices=plan.towers,
            uneven="weighted",  # for the last batch of an evaluation
        ),
        model_dir=settings.model_dir,
        config=config,
        params=params,
    )


def _save_every(settings: RunSettings, in_cluster: bool) -> int | None:
    """Returns the steps between two checkpoints, None for a checkpoint every ten minutes.

    One process saves what it evaluates, so that it saves at least as often as it evaluates.
    """
    if in_cluster:
        return settings.save_every_steps
    return min(settings.save_every_steps or settings.eval_every_steps, settings.eval_every_steps)


def dry_run(
    model_fn: Callable[..., Any],
    plan: model_deploy.DevicePlan,
    data: mnist.Dataset,
    settings: RunSettings,
    params: Params,
) -> None:
    """Prints the differences between loss and gradients on all towers and on one. Trains nothing.

    Random numbers that a model draws differ between towers, and so do gradients that use them.
    """
    show_plan(plan, data, settings.batch_size, params)
    check = replicate.check_replication(
        model_fn,
        _training_input(data, settings),
        plan.towers,
        params,
        v1.losses.Reduction.MEAN,
        config=replicate.RunConfig(tf_random_seed=settings.seed),
        output=None,
    )
    print(check.table)
    differences = (check.loss, *check.gradients)
    for found in differences:
        cli.show("difference", f"{found.relative:.1e}   {found.name}")
    is_same = max(found.relative for found in differences) <= _ROUNDING and not check.unmatched
    verdict = "are those on one, but for rounding" if is_same else "are not those on one"
    cli.show("dry run", f"loss and gradients on {len(plan.towers)} towers {verdict}")


def train_and_evaluate(
    estimator: replicate.Estimator, data: mnist.Dataset, settings: RunSettings
) -> Results:
    """Trains up to a step, evaluating on both parts of the data on the way and at the end.

    Writes config.json when training begins. A checkpoint at the last step is not trained further.

    Returns:
      The results of the last evaluations, named "train" and "test".
    """
    train_steps = settings.train_steps
    step = cli.step_of(estimator)
    cli.show_start(estimator.latest_checkpoint(), step, estimator.model_dir, train_steps)
    evaluator = _without_progress(estimator)
    if step >= train_steps:
        return evaluate(evaluator, data)
    every = settings.eval_every_steps
    evaluations = EvaluateCheckpoints(lambda: evaluate(evaluator, data), every, train_steps, step)
    for last in ends_of_training(step, every, train_steps):
        estimator.train(
            _training_input(data, settings),
            hooks=[ConfigRecord(estimator, params=estimator.params)],
            max_steps=last,
            saving_listeners=[evaluations],
        )
    return evaluations.results


def ends_of_training(step: int, every: int, train_steps: int) -> list[int]:
    """Returns the last steps of the calls of `Estimator.train`, which counts intervals anew.

    There is one call, unless the run starts between two evaluations. Then the first call ends at
    the next one, so that evaluations are at multiples of their interval.
    """
    following = -(-step // every) * every
    return [following, train_steps] if step < following < train_steps else [train_steps]


def train_in_cluster(
    estimator: replicate.Estimator, data: mnist.Dataset, settings: RunSettings
) -> Results:
    """Trains in the role of this process in the cluster.

    The chief writes config.json when training begins. Workers read the training set in different
    orders; the batch size is that of one worker.

    Returns:
      The results of an evaluation of the last checkpoint by the chief, named "train" and "test";
      empty in other tasks.
    """
    config = estimator.config
    cli.show("task", f"{config.task_type} {config.task_id}")
    record = [ConfigRecord(estimator, params=estimator.params)] if config.is_chief else []
    replicate.train_and_evaluate(
        estimator,
        replicate.TrainSpec(
            _training_input(data, settings, config.global_id_in_cluster or 0),
            max_steps=settings.train_steps,
            hooks=record,
        ),
        replicate.EvalSpec(
            lambda: mnist.input_fn(*data.test, EVAL_BATCH, training=False),
            steps=None,
            name="test",
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )
    if not config.is_chief:
        return {}
    return evaluate(_without_progress(estimator), data)


class EvaluateCheckpoints(v1.train.CheckpointSaverListener):
    """Evaluates a checkpoint right after the save, if an evaluation is due.

    The session of training stays open. A call of `Estimator.train` for each evaluation would build
    the graph of training anew, which takes as long as many steps.

    Attributes:
      results: Results of the newest evaluation, empty before the first.
    """

    def __init__(
        self, evaluate: Callable[[], Mapping[str, Any]], every: int, last_step: int, first_step: int
    ) -> None:
        """Keeps the evaluation and its steps. The last step is evaluated in any case."""
        self.results: Mapping[str, Any] = {}
        self._evaluate = evaluate
        self._every = every
        self._last_step = last_step
        self._rounds = self._rounds_at(first_step)

    def after_save(self, session: v1.Session, global_step_value: int) -> None:
        """Evaluates at the first save in a new interval of steps, and at the last step."""
        del session
        rounds = self._rounds_at(global_step_value)
        if rounds > self._rounds or global_step_value >= self._last_step:
            self.results = self._evaluate()
        self._rounds = rounds

    def _rounds_at(self, step: int) -> int:
        """Returns the number of intervals between evaluations that end up to a step."""
        return step // self._every


def _training_input(
    data: mnist.Dataset, settings: RunSettings, worker: int = 0
) -> Callable[[], Any]:
    seed = settings.seed + worker
    return lambda: mnist.input_fn(*data.train, settings.batch_size, training=True, seed=seed)


def evaluate(estimator: replicate.Estimator, data: mnist.Dataset) -> Results:
    """Evaluates the newest checkpoint on the training and the test set, and prints one line."""
    results = {
        name: estimator.evaluate(
            lambda part=part: mnist.input_fn(*part, EVAL_BATCH, training=False), name=name
        )
        for name, part in (("train", data.train), ("test", data.test))
    }
    texts = (
        f"{name} loss {result['loss']:.4f}" + "".join(f" {m} {v:.3f}" for m, v in metrics(result))
        for name, result in results.items()
    )
    step = int(results["train"]["global_step"])
    with tqdm.external_write_mode():  # Takes the bar of a training run off the terminal meanwhile.
        cli.show("evaluation", f"step {step}   " + "   ".join(texts))
    return results


def metrics(result: Mapping[str, float]) -> list[tuple[str, float]]:
    """Returns names and values of the model's own metrics, without loss and global step."""
    return sorted(
        (name, value) for name, value in result.items() if name not in ("loss", "global_step")
    )


def show_results(estimator: replicate.Estimator, results: Results, title: str) -> None:
    """Draws the curves, and prints the metrics and where everything is."""
    folder = estimator.model_dir
    picture = f"{folder}/curves.png"
    metric, _ = metrics(next(iter(results.values())))[0]
    curves.draw(curves.read(folder), picture, title, metric)
    for part, result in results.items():
        for name, value in metrics(result):
            cli.show(f"{part} {name}", f"{value:.3f}")
    cli.show("checkpoint", estimator.latest_checkpoint())
    cli.show("events", f"{folder}    look at them with: tensorboard --logdir {folder}")
    cli.show("curves", picture)


def _without_progress(estimator: replicate.Estimator) -> replicate.Estimator:
    """Returns an Estimator of the same model without progress lines."""
    return replicate.Estimator(
        estimator.model_fn,
        config=estimator.config.replace(progress="off"),
    )
