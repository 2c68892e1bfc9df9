"""Checkpoints that are kept, and loads of those that lack optimizer state."""

import logging
import os
import random
import signal

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.checkpoints.retention import (
    KeptCheckpoints,
    remove_save_note,
    remove_unlisted,
    write_save_note,
)
from replicate.estimator.checkpoints.state_saver import StateSaver
from replicate.estimator.log import log
from replicate.saved.checkpoint_names import OptimizerState

v1 = tf.compat.v1
# One child process imports TensorFlow and forks one process per run, which the parent kills.
KILLED = """
import os
estimator = linear.make_estimator(
    sys.argv[2], save_checkpoints_steps=1, keep_checkpoint_max=3, log_step_count_steps=None,
    save_summary_steps=None)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        tell = lambda step: print(step, flush=True)
        try:
            estimator.train(linear.shuffled_input_fn, hooks=[linear.CallHook(tell)])
        except BaseException as error:
            print("failed", repr(error).replace(chr(10), " "), flush=True)
        os._exit(1)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("ended", flush=True)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def model_dir(tmp_path):
    """A directory whose state file lists the steps 2 and 3 of 1 to 4."""
    for step in (1, 2, 3, 4):
        for suffix in ("index", "data-00000-of-00001", "meta"):
            (tmp_path / f"model.ckpt-{step}.{suffix}").write_text("")
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-3"\nall_model_checkpoint_paths: "model.ckpt-2"'
    )
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        {"max_to_keep": 2},
        {"max_to_keep": None},
        {"max_to_keep": 2, "keep_checkpoint_every_n_hours": 1e-9},
    ],
    ids=["two", "all", "for ever"],
)
def test_keeps_what_a_saver_of_tensorflow_keeps(graph, options, tmp_path):
    variable = v1.get_variable("w", [], initializer=v1.ones_initializer())
    ours, theirs = (v1.train.Saver(save_relative_paths=True, **options) for _ in range(2))
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    kept = KeptCheckpoints(ours, FencedModelDir(f"{tmp_path}/ours"))
    with v1.Session() as session:
        session.run(variable.initializer)
        for step in (1, 2, 3, 4, 4):
            path = f"{tmp_path}/ours/model.ckpt-{step}"
            before = names(tmp_path / "ours")
            due = kept.due_with(path)
            ours.save(session, path, write_meta_graph=False, write_state=False)
            kept.add(path)
            theirs.save(session, f"{tmp_path}/theirs/model.ckpt", step, write_meta_graph=False)
            gone = {name for name in before if name not in names(tmp_path / "ours")}
            assert {f"{tmp_path}/ours/{name.rpartition('.')[0]}" for name in gone} == set(due)
            assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")
            assert [path.rpartition("/")[2] for path in ours.last_checkpoints] == [
                path.rpartition("/")[2] for path in theirs.last_checkpoints
            ]


def test_noted_checkpoints_are_removed_unless_listed(model_dir):
    (model_dir / "other-1.index").write_text("")
    noted = [f"{model_dir}/model.ckpt-{step}" for step in (4, 1, 2, 7)]
    write_save_note(FencedModelDir(str(model_dir)), [*noted, f"{model_dir}/other-1", ".."])
    assert remove_unlisted(FencedModelDir(str(model_dir))) == ["model.ckpt-4", "model.ckpt-1"]
    assert [name for name in names(model_dir) if name.endswith(".index")] == [
        "model.ckpt-2.index",
        "model.ckpt-3.index",
        "other-1.index",
    ]
    assert len(names(model_dir)) == 8, "the note is gone, and so are data and graph"


def test_unlisted_checkpoints_stay_without_a_note_or_a_state_file(model_dir):
    before = names(model_dir)
    assert remove_unlisted(FencedModelDir(str(model_dir))) == []
    write_save_note(FencedModelDir(str(model_dir)), [f"{model_dir}/model.ckpt-1"])
    for _ in range(2):
        remove_save_note(FencedModelDir(str(model_dir)))
    assert remove_unlisted(FencedModelDir(str(model_dir))) == []
    assert names(model_dir) == before
    write_save_note(FencedModelDir(str(model_dir)), [f"{model_dir}/model.ckpt-1"])
    (model_dir / "checkpoint").write_bytes(b"")
    before = names(model_dir)
    assert remove_unlisted(FencedModelDir(str(model_dir))) == []
    assert names(model_dir) == before


def kill_while_saving(child, folder, chance):
    """Starts a run, kills it some while after some step; returns the first and last step."""
    child.stdin.write("\n")
    child.stdin.flush()
    pid = int(child.stdout.readline())
    steps = [int(child.stdout.readline()) for _ in range(chance.randint(1, 4))]
    until = chance.randint(0, 3000)
    for _ in range(until):
        list(folder.iterdir())
        if until > 2000 and (folder / "checkpoint.saving").exists():
            break
    os.kill(pid, signal.SIGKILL)
    while (line := child.stdout.readline()) != "ended\n":
        steps.append(int(line))
    return steps[0], steps[-1]


@pytest.mark.parametrize(
    "kills", [pytest.param(2, marks=pytest.mark.broad), pytest.param(50, marks=pytest.mark.slow)]
)
def test_repeated_kills_lose_no_step_and_leave_nothing(linear, stub, tmp_path, kills):
    child = stub(KILLED, tmp_path)
    chance, reached = random.Random(kills), 0
    for _ in range(kills):
        first, last = kill_while_saving(child, tmp_path, chance)
        assert first in (reached, reached + 1), "the step before the kill was saved"
        reached = last
    estimator = linear.make_estimator(tmp_path, keep_checkpoint_max=3, save_checkpoints_steps=100)
    estimator.train(linear.shuffled_input_fn, steps=1)
    described = ("events.", "metrics.", "writer-", "run.json", "time.json", "graph.", "checkpoint")
    found = [name for name in names(tmp_path) if not name.startswith(described)]
    positions = [name for name in found if name.endswith(".input_position")]
    whole = {name.removesuffix(".index") for name in found if name.endswith(".index")}
    assert len(whole) <= 3
    assert len(found) - len(positions) == 3 * len(whole), found
    last = {estimator.latest_checkpoint().rpartition("/")[2]}
    assert {name.removesuffix(".input_position") for name in positions} == whole - last

    compared = linear.make_estimator(tmp_path / "whole", save_checkpoints_steps=1000)
    compared.train(
        linear.shuffled_input_fn, max_steps=int(estimator.get_variable_value("global_step"))
    )
    np.testing.assert_equal(linear.values(estimator), linear.values(compared))


def build(value):
    """Two weights, one of them in two parts, each with an optimizer that has slots."""
    ones = v1.constant_initializer(value)
    whole = v1.get_variable("whole", [2], initializer=ones)
    with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
        parts = list(v1.get_variable("parts", [2, 1], initializer=ones))
    adagrad, momentum = v1.train.AdagradOptimizer(0.1), v1.train.MomentumOptimizer(0.1, 0.9)
    loss = tf.reduce_sum(whole) + tf.add_n([tf.reduce_sum(part) for part in parts])
    train_op = [adagrad.minimize(loss, var_list=parts), momentum.minimize(loss, var_list=[whole])]
    states = [OptimizerState(each.get_name(), each.variables()) for each in (adagrad, momentum)]
    return train_op, states


def slots(states, session):
    return [session.run(state.variables)[0].ravel().tolist() for state in states]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Checkpoints after a step: of everything, without each state, and without a weight."""
    folder = tmp_path_factory.mktemp("saved")
    with tf.Graph().as_default(), v1.Session() as session:
        train_op, (adagrad, momentum) = build(3.0)
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        without = {
            "nothing": [],
            "Adagrad": adagrad.variables,
            "both": [*adagrad.variables, *momentum.variables],
            "whole": v1.trainable_variables("whole"),
        }
        paths = {}
        for name, left_out in without.items():
            names = {each.op.name for each in left_out}
            kept = [each for each in v1.global_variables() if each.op.name not in names]
            paths[name] = v1.train.Saver(kept).save(session, str(folder / name))
    return paths


@pytest.mark.parametrize(
    ("left_out", "expected", "initialized"),
    [
        ("nothing", [[1.1], [1.0, 1.0]], []),
        ("Adagrad", [[0.1], [1.0, 1.0]], ["Adagrad"]),
        ("both", [[0.1], [0.0, 0.0]], ["Adagrad", "Momentum"]),
    ],
)
def test_state_that_is_not_there_is_initialized(
    left_out, expected, initialized, checkpoints, graph, caplog
):
    _, states = build(7.0)
    saver = StateSaver(None, states)
    graph.finalize()
    caplog.set_level(logging.INFO, log.name)
    with v1.Session() as session:
        saver.restore(session, checkpoints[left_out])
        weights = session.run(v1.trainable_variables())
        found = slots(states, session)
    assert weights[0].tolist() == pytest.approx([2.9, 2.9])
    assert all(2.9 <= weight.max() < 3 for weight in weights)
    assert found == [pytest.approx(each) for each in expected]
    told = [record.getMessage() for record in caplog.records if record.name == log.name]
    assert len(told) == len(initialized)
    for text, owner in zip(told, initialized, strict=True):
        assert f"lacks the slots and other state of {owner} under the names of this model" in text


def test_names_in_checkpoints_are_those_of_the_mapping_and_no_weight_may_be_missing(
    checkpoints, graph
):
    _, (_, momentum) = build(7.0)
    other = v1.get_variable("other", [2])
    objects = {"whole": other, **{each.op.name: each for each in momentum.variables}}
    saver = StateSaver(objects, [momentum])
    with v1.Session() as session:
        saver.restore(session, checkpoints["both"])
        assert session.run(other).tolist() == pytest.approx([2.9, 2.9])
        assert session.run(momentum.variables)[0].tolist() == [0, 0]
        with pytest.raises(tf.errors.NotFoundError, match="whole"):
            saver.restore(session, checkpoints["whole"])
