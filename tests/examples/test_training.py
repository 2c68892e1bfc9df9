"""Towers and batches: what is chosen, and what is refused. Rounds are run by programs' tests."""

import pytest

pytest.importorskip("matplotlib")

import model_deploy
import replicate
from examples import cli, training
from replicate.estimator.cluster_config import ClusterConfig


def plan(towers):
    return model_deploy.device_plan(["/cpu:0"] * towers)


def settings(num_towers=None, devices=None):
    return cli.RunSettings(
        data_dir=None,
        model_dir="unused",
        num_towers=num_towers,
        devices=devices,
        batch_size=8,
        train_steps=1,
        eval_every_steps=1,
        save_every_steps=None,
        seed=0,
        progress="off",
    )


@pytest.mark.parametrize(("batch", "towers"), [(128, 2), (128, 1), (6, 3), (7, 7)])
def test_divisible_batch_size_is_accepted(batch, towers):
    training.check_batch_size(batch, plan(towers))


@pytest.mark.parametrize(
    ("batch", "towers", "advice"),
    [(127, 2, "126 or 128 can"), (2, 3, "; 3 can"), (10, 4, "8 or 12")],
)
def test_indivisible_batch_size_is_refused_with_advice(batch, towers, advice):
    with pytest.raises(ValueError, match=f"--batch_size={batch} cannot be split.*{advice}"):
        training.check_batch_size(batch, plan(towers))


def test_devices_and_number_of_towers_must_agree():
    with pytest.raises(
        ValueError, match="3 towers cannot go on --devices=/cpu:0,/cpu:1, which are 2"
    ):
        training.plan_towers(3, ["/cpu:0", "/cpu:1"])


@pytest.mark.parametrize(
    ("num_towers", "devices", "wrong"),
    [(2, None, "--num_towers=2:"), (1, ["/cpu:0"], "--num_towers=1 --devices=/cpu:0:")],
)
def test_a_plain_graph_refuses_towers(num_towers, devices, wrong):
    with pytest.raises(ValueError, match=f"has no towers, got {wrong}"):
        training.plan_one_device(settings(num_towers, devices))


def test_towers_use_existing_logical_devices():
    towers = training.plan_towers(3, None).towers
    assert towers == ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2")
    assert training.plan_towers(None, ["/cpu:4", "/cpu:1"]).towers == (
        "/device:CPU:4",
        "/device:CPU:1",
    )


def test_metrics_are_those_of_the_model():
    result = {"loss": 1.0, "global_step": 7, "fooled": 0.5, "accuracy": 0.25}
    assert training.metrics(result) == [("accuracy", 0.25), ("fooled", 0.5)]


@pytest.mark.parametrize("task_type", ["chief", "worker", "ps"])
def test_in_a_cluster_the_chief_writes_the_configuration(tmp_path, monkeypatch, task_type):
    monkeypatch.setattr(replicate, "train_and_evaluate", lambda *specs: None)
    monkeypatch.setattr(training, "evaluate", lambda estimator, data: {})
    jobs = dict.fromkeys(("chief", "worker", "ps"), ("127.0.0.1:1",))
    config = replicate.RunConfig(str(tmp_path), cluster=ClusterConfig(jobs, task_type))
    training.train_in_cluster(
        replicate.Estimator(lambda features: None, config=config), None, settings()
    )
    assert (tmp_path / "config.json").exists() == (task_type == "chief")
