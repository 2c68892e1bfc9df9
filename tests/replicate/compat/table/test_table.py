"""The table of old names: each row leads somewhere, and the guides name no others."""

import re
from pathlib import Path

import pytest

import replicate
from replicate.compat.absent import is_absent
from replicate.compat.old_modules import is_old_module, old_module
from replicate.compat.table import PRIVATE, PRIVATE_MODULES, TABLE, names_below, row_of

ROOT = Path(__file__).parents[4]
OPTIONAL = ("tf_slim", "replicate.tpu", "tf.nn.rnn_cell")
# What replicate has and tf.estimator had not.
NEW = {
    "AVERAGE_LOSS_METRIC_KEY", "AllReduce", "LOSS_METRIC_KEY", "GLOBAL_VARIABLE_NAME",
    "CheckpointError",
    "ClusterConfigError", "ClusterError", "Difference", "DynamicLossScale", "KMeansClustering",
    "ModelAverageCustomGetter", "ModelAverageOptimizer", "ModelDirInUseError", "NonFiniteError",
    "ReplicationCheck", "SyncReplicasHook", "TaskType", "TowerContext", "TrainingInterrupted",
    "check_replication", "current_tower", "model_average", "model_table",
    "model_to_estimator", "per_tower_collection", "prefetch_to_towers", "read_eval_metrics",
    "step_seed", "WorkersDifferError", "worker_share",
}  # fmt: skip
HEAD_FUNCTIONS = {name for name in replicate.__all__ if name.endswith("_head")}


def found(old):
    package, _, name = old.rpartition(".")
    return getattr(old_module(package, "replicate.v1"), name)


@pytest.mark.parametrize(
    "old",
    [
        row.old.removesuffix(".*")
        for row in TABLE.values()
        if row.new is not None and not row.new.startswith(OPTIONAL)
    ],
)
def test_row_with_a_replacement_leads_to_it(old):
    assert not is_absent(found(old))


@pytest.mark.parametrize("old", [row.old for row in TABLE.values() if row.new is None])
def test_row_without_a_replacement_has_advice(old):
    assert TABLE[old].difference.endswith(".")


def test_every_public_name_that_tf_estimator_had_is_in_the_table():
    below = {"", ".experimental", ".export", ".inputs"}
    known = set().union(*(names_below(f"tf.estimator{each}") for each in below))
    known |= names_below("tf.contrib.estimator")
    assert set(replicate.__all__) - known == NEW
    assert set(replicate.export.__all__) <= names_below("tf.estimator.export")
    assert names_below("tf.contrib.estimator") >= HEAD_FUNCTIONS


def test_every_private_module_is_one():
    assert all(is_old_module(f"{PRIVATE}.{name}") for name in PRIVATE_MODULES)
    assert not is_old_module(f"{PRIVATE}.nothing")


def test_closest_package_counts():
    assert row_of("tf.contrib.distribute.Monitor").old == "tf.contrib.distribute.*"
    assert row_of("tf.contrib.anything.at_all").old == "tf.contrib.*"
    assert row_of("tf.estimator.Nothing") is None


def names_of_guide(page):
    """Old names in the first column of the tables of a guide."""
    text = (ROOT / "docs" / "howto" / page).read_text()
    for line in re.findall(r"^\| `(tf\..*?) \|", f"{text}", re.MULTILINE):
        first = re.match(r"(tf\.(?:contrib|estimator)\.(?:\w+\.)*)(\w+)(?=[`(])", line)
        if first:
            yield first[1] + first[2]
            for name in re.findall(r"`(\w+)`", line[first.end() :]):
                yield first[1] + name


@pytest.mark.parametrize("page", ["from_tf_estimator.md", "from_contrib.md"])
def test_every_name_of_the_guides_is_in_the_table(page):
    names = sorted(set(names_of_guide(page)))
    assert len(names) >= 4
    assert [name for name in names if row_of(name) is None] == []
