"""The table of old names: each row leads somewhere, and the reference names no others."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

import replicate
from replicate.compat.absent import is_absent
from replicate.compat.old_modules import is_old_module, old_module
from replicate.compat.table import PRIVATE, PRIVATE_MODULES, TABLE, V1_DEFAULTS, names_below, row_of

ROOT = Path(__file__).parents[4]
OPTIONAL = ("tf_slim", "tensorflow_gan", "replicate.tpu")
# What replicate has and tf.estimator had not.
NEW = {
    "AVERAGE_LOSS_METRIC_KEY", "AllReduce", "LOSS_METRIC_KEY", "GLOBAL_VARIABLE_NAME",
    "CheckpointError",
    "ClusterConfigError", "ClusterError", "CutOffError", "Difference", "DynamicLossScale",
    "KMeansClustering",
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


def test_rows_with_a_replacement_lead_to_it_and_others_have_advice():
    replaced = [row for row in TABLE.values() if row.new and not row.new.startswith(OPTIONAL)]
    names = [row.old.removesuffix(".*") for row in replaced]
    assert len(names) > 300
    assert [old for old in names if is_absent(found(old))] == []
    lost = [row for row in TABLE.values() if row.new is None]
    assert lost
    assert [row.old for row in lost if not row.difference.endswith(".")] == []
    assert all(is_old_module(f"{PRIVATE}.{name}") for name in PRIVATE_MODULES)
    assert not is_old_module(f"{PRIVATE}.nothing")


def test_every_public_name_that_tf_estimator_had_is_in_the_table():
    below = {"", ".experimental", ".export", ".inputs"}
    known = set().union(*(names_below(f"tf.estimator{each}") for each in below))
    known |= names_below("tf.contrib.estimator")
    assert set(replicate.__all__) - known == NEW
    assert set(replicate.export.__all__) <= names_below("tf.estimator.export")
    assert names_below("tf.contrib.estimator") >= HEAD_FUNCTIONS


def test_closest_package_counts():
    assert row_of("tf.contrib.distribute.Monitor").old == "tf.contrib.distribute.*"
    assert row_of("tf.contrib.anything.at_all").old == "tf.contrib.*"
    assert row_of("tf.estimator.Nothing") is None


def names_of_guide(text):
    """Old names in the first column of the tables of a page."""
    for line in re.findall(r"^\| `(tf\..*?) \|", text, re.MULTILINE):
        first = re.match(r"(tf\.(?:contrib|estimator)\.(?:\w+\.)*)(\w+)(?=[`(])", line)
        if first:
            yield first[1] + first[2]
            for name in re.findall(r"`(\w+)`", line[first.end() :]):
                yield first[1] + name


@pytest.fixture(scope="module")
def write_names():
    """The tool that writes the tables of the reference."""
    spec = importlib.util.spec_from_file_location("write_names", ROOT / "tools" / "write_names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["old_names", "old_names_kfac"])
def test_tables_of_the_reference_are_those_of_the_data(write_names, page):
    text = (write_names.PAGES / f"{page}.md").read_text()
    assert len(write_names.MARKED.findall(text)) >= 2
    assert write_names.written(text) == text, "run `python tools/write_names.py`"
    names = sorted(set(names_of_guide(text)))
    assert len(names) >= (4 if page == "old_names" else 0)
    assert [name for name in names if row_of(name) is None] == []


def test_every_row_is_in_the_reference(write_names):
    pages = "".join(path.read_text() for path in write_names.PAGES.glob("old_names*.md"))
    told = {
        name for line in re.findall(r"^\| `.*$", pages, re.MULTILINE) for name in names_in(line)
    }
    rows = {
        row.old for row in TABLE.values() if not row.old.startswith(("tensorflow_", "tf.python"))
    }
    assert {old for old in rows if not old.startswith("tf.estimator.tpu")} - told == set()


def names_in(line):
    """Full names in the first cell of a line of a page."""
    package = ""
    for name in re.findall(r"`([\w.*]+)`", line.split(" | ")[0]):
        package = name.rpartition(".")[0] or package
        yield f"{package}.{name.rpartition('.')[2]}"


def test_plain_names_have_rows(write_names):
    page = (write_names.PAGES / "old_names.md").read_text()
    lines = page.partition("| old | in plain TensorFlow |\n|---|---|\n")[2].split("\n\n")[0]
    names = [name for line in lines.splitlines() for name in names_in(line)]
    assert len(names) > 50
    assert [old for old in names if row_of(old) is None] == []


def test_cells_mark_code_and_unknown_packages_are_errors(write_names):
    assert write_names.as_code("Use tf.train.X, or a|b.") == r"Use `tf.train.X`, or a\|b."
    assert write_names.as_code("Use `x` of tf.train.") == "Use `x` of tf.train."
    with pytest.raises(ValueError, match=r"No row of the table of old names begins with 'tf.none'"):
        write_names.table_of("tf.none")


def test_defaults_that_differ_are_those_of_v1():
    tree = ast.parse((ROOT / "replicate" / "v1.py").read_text())
    made = {each.name for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    assert {name for name in made if not name.startswith("_")} == V1_DEFAULTS
