"""Names in checkpoints, state that one may lack, and errors of the disk."""

import re
from pathlib import Path

import pytest
import tensorflow as tf

from replicate import TowerOptimizer
from replicate.errors import CheckpointError
from replicate.model_average import ModelAverageCustomGetter
from replicate.saved.checkpoint_names import (
    add_former_names,
    allow_missing_state,
    former_names,
    optional_states,
    save_as,
    saved_objects,
    saved_variables,
)
from replicate.saved.disk_errors import disk_errors, disk_reason

v1 = tf.compat.v1


def build(averaged):
    with v1.variable_scope(
        "layer", custom_getter=ModelAverageCustomGetter("") if averaged else None
    ):
        weights = v1.get_variable("w", initializer=[1.0, 2.0])
    return weights, v1.train.create_global_step()


def test_a_checkpoint_of_averages_is_that_of_an_ordinary_model(graph, tmp_path):
    build(averaged=True)
    named = saved_variables()
    assert sorted(named) == ["global_step", "layer/w"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(named["layer/w"].assign([7.0, 8.0]))
        path = v1.train.Saver(saved_objects()).save(session, str(tmp_path / "averaged"))
    with tf.Graph().as_default(), v1.Session() as session:
        weights, _ = build(averaged=False)
        v1.train.Saver().restore(session, path)
        assert session.run(weights).tolist() == [7.0, 8.0]


def test_saved_objects_include_saveable_objects_of_the_graph(graph):
    build(averaged=True)
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
    assert saveable in saved_objects().values()
    v1.train.Saver(saved_objects())


def test_save_as_renames_one_variable_in_checkpoints(graph, tmp_path):
    weights, step = build(averaged=False)
    assert saved_objects() is None
    assert saved_variables() == {"layer/w": weights, "global_step": step}
    save_as(weights, "layer/old_w")
    assert saved_variables() == {"layer/old_w": weights, "global_step": step}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver(saved_objects()).save(session, str(tmp_path / "renamed"))
    names = [name for name, _ in tf.train.list_variables(path)]
    assert names == ["global_step", "layer/old_w"]


def test_former_names_are_kept_with_the_variable(graph):
    variable = v1.get_variable("now", [])
    assert former_names() == {}
    add_former_names(variable, ["before", "long_ago"])
    assert former_names() == {"now": ("before", "long_ago")}


def test_states_are_those_of_the_finished_graph(graph):
    weight = v1.get_variable("w", initializer=[1.0])
    adam, descent = v1.train.AdamOptimizer(), v1.train.GradientDescentOptimizer(0.1)
    for optimizer in (adam, descent, adam, TowerOptimizer(adam)):
        allow_missing_state(optimizer)
    assert optional_states() == []
    for optimizer in (adam, descent):
        optimizer.minimize(tf.reduce_sum(weight), var_list=[weight])
    (state,) = optional_states()
    assert state.owner == "Adam"
    assert {each.op.name for each in state.variables} == {
        "beta1_power",
        "beta2_power",
        "w/Adam",
        "w/Adam_1",
    }
    with tf.Graph().as_default():
        assert optional_states() == []


def write_with_python(path):
    path.write_text("x")


def write_with_tensorflow(path):
    with tf.io.gfile.GFile(str(path), "w") as file:
        file.write("x")


WRITERS = [write_with_python, write_with_tensorflow]


@pytest.mark.parametrize("write", WRITERS)
def test_python_and_tensorflow_give_the_same_line(tmp_path, write):
    path = tmp_path / "absent" / "file"
    with (
        pytest.raises(CheckpointError) as caught,
        disk_errors("Cannot save x", "Look at the disk."),
    ):
        write(path)
    assert str(caught.value) == (
        f"Cannot save x: {path}: No such file or directory. Look at the disk."
    )


def write_with_an_operation(prefix):
    saved = tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=["a"], shape_and_slices=[""], tensors=[[1.0]]
    )
    with v1.Session() as session:
        session.run(saved)


def write_with_a_saver(prefix):
    weight = v1.get_variable("w", [])
    with v1.Session() as session:
        session.run(weight.initializer)
        v1.train.Saver().save(session, str(prefix))


@pytest.mark.parametrize(
    ("write", "path", "reason"),
    [
        (write_with_python, "/dev/full", "No space left on device$"),
        (write_with_tensorflow, "/dev/full", "No space left on device$"),
        (tf.io.gfile.makedirs, "file/a", "/file: not a directory$"),
        (write_with_an_operation, "file/a", r"/file\S*: Not a directory$"),
        (write_with_a_saver, "file/a/model.ckpt", "Not a directory$"),
    ],
)
def test_reason_is_found_in_errors_of_all_writers(graph, tmp_path, write, path, reason):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    (tmp_path / "file").write_text("")
    with pytest.raises((OSError, ValueError, tf.errors.OpError)) as caught:
        write(tmp_path / path)
    assert re.search(reason, disk_reason(caught.value))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("No space left on device"),
        OSError("no number"),
        tf.errors.UnavailableError(None, None, "connect to 127.0.0.1: Connection refused"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        tf.errors.OutOfRangeError(None, None, "End of sequence"),
    ],
)
def test_other_errors_pass(error):
    assert disk_reason(error) is None
    with pytest.raises(type(error)) as caught, disk_errors("Cannot save x"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("kind", [tf.errors.OutOfRangeError, tf.errors.AbortedError])
def test_faults_with_another_meaning_for_a_session_are_translated(kind):
    text = "/disk/a; File too large\n\t [[node save/SaveV2]]"
    line = r"^Cannot save: /disk/a: File too large\.$"
    with pytest.raises(CheckpointError, match=line), disk_errors("Cannot save"):
        raise kind(None, None, text)
