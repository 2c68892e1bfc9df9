"""Two workers of the program, as threads with a server and a graph each, train one model."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import tensorflow as tf

pytest.importorskip("matplotlib")

import replicate
from examples import convnet_model, mnist, training
from replicate.launch import cluster_plan

v1 = tf.compat.v1
PARAMS = {"optimizer": "momentum", "learning_rate": 0.05, "momentum": 0.9}
SECS = 60


def estimators(plan, run_settings):
    """One for each worker, as the program makes it from its TF_CONFIG: the chief's first."""
    towers = training.plan_towers(run_settings.num_towers, None)
    for task in plan.tasks:
        with mock.patch.dict(os.environ, {"TF_CONFIG": plan.tf_config(task)}):
            yield training.make_estimator(
                convnet_model.model_fn,
                towers,
                run_settings,
                PARAMS,
                replicate.AllReduce(timeout_secs=SECS),
            )


@pytest.mark.broad
def test_workers_train_one_model_and_the_chief_evaluates(tmp_path, capfd, make_settings, noise):
    data = mnist.Dataset("noise", noise(32), noise(32))
    run_settings = make_settings(tmp_path, num_towers=2, progress="log")
    workers = list(estimators(cluster_plan(2, 0), run_settings))
    with ThreadPoolExecutor(2) as threads:
        runs = [
            threads.submit(training.train_in_cluster, worker, data, run_settings)
            for worker in workers
        ]
        results, none = (run.result(SECS) for run in runs)
    assert none == {}, "only the chief evaluates"
    assert 0 < results["test"]["loss"] < 10
    assert 0 <= results["test"]["accuracy"] <= 1
    losses = re.findall(r"train  step 3/3 .*? loss ([0-9.]+)", capfd.readouterr().err)
    assert len(losses) == 2
    assert losses[0] == losses[1], "each worker shows the loss of all"
    assert workers[1].get_variable_value("global_step") == 3
    assert workers[1].latest_checkpoint() == f"{tmp_path}/model.ckpt-3"
    record = json.loads((tmp_path / "config.json").read_text())
    assert record["run_config"]["cluster"] == {"chief": 1, "worker": 1}
