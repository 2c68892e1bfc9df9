"""Towers and batches: what is chosen, and what is refused. Rounds are run by programs' tests."""

import re

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("matplotlib")

import model_deploy
import replicate
from examples import cli, mnist, training
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1


def plan(towers):
    return model_deploy.device_plan(["/cpu:0"] * towers)


def test_batch_size_must_be_divisible():
    for batch, towers, advice in ((127, 2, "126 or 128"), (2, 3, "; 3 can"), (10, 4, "8 or 12")):
        training.check_batch_size(8 * towers, plan(towers))
        with pytest.raises(ValueError, match=f"--batch_size={batch} cannot be split.*{advice}"):
            training.check_batch_size(batch, plan(towers))


def test_wrong_towers_are_refused(make_settings):
    pair = ["/cpu:0", "/cpu:1"]
    refused = "3 towers cannot go on --devices=/cpu:0,/cpu:1, which are 2"
    with pytest.raises(ValueError, match=refused):
        training.plan_towers(3, pair)
    for count in (257, 2**63):
        with pytest.raises(ValueError, match=f"--num_towers={count} is more than the 256"):
            training.plan_towers(count, None)
    for towers, devices, wrong in (
        (2, None, "--num_towers=2:"),
        (1, pair[:1], "--num_towers=1 --devices=/cpu:0:"),
    ):
        with pytest.raises(ValueError, match=f"has no towers, got {wrong}"):
            training.plan_one_device(make_settings(num_towers=towers, devices=devices))


def test_towers_take_turns_on_existing_logical_devices():
    towers = training.plan_towers(None, ["/cpu:4", "/cpu:1"]).towers
    assert towers == ("/device:CPU:4", "/device:CPU:1")
    count = len(tf.config.list_logical_devices("CPU"))  # TensorFlow fixes its devices here.
    towers = training.plan_towers(count + 2, None).towers
    assert towers[0] == "/device:CPU:0"
    assert towers[count - 1 :] == (f"/device:CPU:{count - 1}", "/device:CPU:0", "/device:CPU:1")


def test_a_run_takes_the_model_directory_over_and_reduces_if_it_is_told_to(make_settings):
    for steal, reduces in ((False, None), (True, replicate.AllReduce())):
        run = make_settings(steal=steal)
        config = training.make_estimator(one_weight([]), plan(1), run, {}, reduces).config
        assert (config.steal_model_dir, config.train_distribute) == (steal, reduces)


def one_weight(modes):
    """Returns the model_fn of one weight, which appends the mode of each call to a list."""

    def model_fn(features, labels, mode, params):
        modes.append(mode)
        w = v1.get_variable("w", [])
        loss = tf.reduce_mean((w * features - tf.cast(labels[0], tf.float32)) ** 2)
        metrics = {"w": v1.metrics.mean(w)} if mode == replicate.ModeKeys.EVAL else None
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    return model_fn


@pytest.fixture
def train(tmp_path, make_settings):
    """Trains one weight, with an evaluation every 4 steps; returns Estimator, results and modes."""
    examples = mnist.Examples(np.ones([16, 2, 2, 1], np.float32), np.arange(16, dtype=np.int32))
    data = mnist.Dataset("", examples, examples)

    def run(train_steps, save_every_steps=None):
        modes = []
        settings = make_settings(
            tmp_path, train_steps=train_steps, eval_every_steps=4, save_every_steps=save_every_steps
        )
        estimator = training.make_estimator(one_weight(modes), plan(1), settings, {})
        return estimator, training.train_and_evaluate(estimator, data, settings), modes

    return run


@pytest.fixture
def evaluated(monkeypatch):
    """Steps of the evaluations, which do nothing; flags of a program are not recorded."""
    steps = []

    def evaluate(estimator, data):
        steps.append(int(estimator.get_variable_value("global_step")))
        return {"test": {}}

    monkeypatch.setattr(cli, "record_config", lambda *args, **values: None)
    monkeypatch.setattr(training, "evaluate", evaluate)
    return steps


def test_a_run_builds_its_graph_once_and_evaluates_on_the_way(train, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "record_config", lambda *args, **values: None)
    estimator, results, modes = train(6)
    printed = re.findall(r"^evaluation +step (\d+)", capsys.readouterr().out, re.MULTILINE)
    assert printed == ["4", "6"]
    assert results["test"]["global_step"] == results["train"]["global_step"] == 6
    assert results["test"]["w"] == estimator.get_variable_value("w")
    assert modes.count(replicate.ModeKeys.TRAIN) == 1
    assert len(list(tmp_path.glob("events.*"))) == 1


def test_a_run_that_continues_between_two_evaluations_keeps_their_steps(train, evaluated):
    train(6)
    train(13)
    assert evaluated == [4, 6, 8, 12, 13]
    _, _, modes = train(13)
    assert (evaluated[-1], modes) == (13, [])


@pytest.mark.parametrize(
    ("save_every", "evaluations", "saves"), [(3, [6, 9, 10], [0, 3, 6, 9, 10]), (5, [4, 8], [])]
)
def test_each_evaluation_is_of_a_checkpoint(
    train, tmp_path, evaluated, save_every, evaluations, saves
):
    train(max(evaluations), save_every)
    assert evaluated == evaluations
    saved = sorted(int(path.stem.split("-")[1]) for path in tmp_path.glob("*.index"))
    assert saved == (saves or [0, *evaluations])


@pytest.mark.parametrize("task_type", ["chief", "worker", "ps"])
def test_in_a_cluster_the_chief_writes_the_configuration_and_evaluates(
    tmp_path, monkeypatch, make_settings, task_type
):
    def begin(estimator, train_spec, eval_spec):
        assert not (tmp_path / "config.json").exists()
        for hook in train_spec.hooks:
            hook.begin()

    monkeypatch.setattr(replicate, "train_and_evaluate", begin)
    monkeypatch.setattr(training, "evaluate", lambda estimator, data: {"test": {}})
    jobs = dict.fromkeys(("chief", "worker", "ps"), ("127.0.0.1:1",))
    config = replicate.RunConfig(str(tmp_path), cluster=ClusterConfig(jobs, task_type))
    found = training.train_in_cluster(
        replicate.Estimator(lambda features: None, config=config), None, make_settings()
    )
    assert found == ({"test": {}} if task_type == "chief" else {})
    assert (tmp_path / "config.json").exists() == (task_type == "chief")
