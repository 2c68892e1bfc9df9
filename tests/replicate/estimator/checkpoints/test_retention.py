import os
import random
import signal

import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.retention import (
    announce,
    dropped_by,
    remove_unlisted,
    withdraw,
)

v1 = tf.compat.v1


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def names_of_checkpoints(folder):
    """Returns the files of a run, without events, metrics and run.json."""
    described = ("events.", "metrics.")
    return [n for n in names(folder) if not n.startswith(described) and n != "run.json"]


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


def test_a_save_drops_the_oldest(graph, tmp_path):
    v1.get_variable("w", [])
    saver = v1.train.Saver(max_to_keep=2)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for step in range(4):
            before, dropped = set(saver.last_checkpoints), dropped_by(saver)
            saver.save(session, f"{tmp_path}/model.ckpt", step, write_meta_graph=False)
            assert set(dropped) == before - set(saver.last_checkpoints)
    assert dropped == [f"{tmp_path}/model.ckpt-1"]


def test_a_saver_that_keeps_all_drops_nothing(graph):
    v1.get_variable("w", [])
    saver = v1.train.Saver(max_to_keep=None)
    saver.set_last_checkpoints_with_time([("a", 1.0), ("b", 2.0)])
    assert dropped_by(saver) == []


def test_noted_checkpoints_are_removed_unless_listed(model_dir):
    announce(str(model_dir), [f"{model_dir}/model.ckpt-{step}" for step in (4, 1, 2, 7)])
    assert remove_unlisted(str(model_dir)) == ["model.ckpt-4", "model.ckpt-1"]
    assert [name for name in names(model_dir) if name.endswith(".index")] == [
        "model.ckpt-2.index",
        "model.ckpt-3.index",
    ]
    assert len(names(model_dir)) == 7, "the note is gone, and so are data and graph"


def test_without_a_note_unlisted_checkpoints_stay(model_dir):
    before = names(model_dir)
    assert remove_unlisted(str(model_dir)) == []
    announce(str(model_dir), [f"{model_dir}/model.ckpt-1"])
    withdraw(str(model_dir))
    withdraw(str(model_dir))
    assert remove_unlisted(str(model_dir)) == []
    assert names(model_dir) == before


def test_nothing_is_removed_while_the_state_file_is_unusable(model_dir):
    announce(str(model_dir), [f"{model_dir}/model.ckpt-1"])
    (model_dir / "checkpoint").write_bytes(b"")
    before = names(model_dir)
    assert remove_unlisted(str(model_dir)) == []
    assert names(model_dir) == before


def test_other_files_in_the_note_are_not_removed(model_dir):
    (model_dir / "other-1.index").write_text("")
    announce(str(model_dir), [f"{model_dir}/other-1", ".."])
    assert remove_unlisted(str(model_dir)) == []
    assert (model_dir / "other-1.index").exists()


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


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_repeated_kills_lose_no_step_and_leave_nothing(linear, stub, tmp_path, kills):
    child = stub(KILLED, tmp_path)
    chance = random.Random(kills)
    reached, left = 0, 0
    for _ in range(kills):
        first, last = kill_while_saving(child, tmp_path, chance)
        assert first in (reached, reached + 1), "the step before the kill was saved"
        reached = last
        left += len(names_of_checkpoints(tmp_path)) > 2 + 4 * 3
    estimator = linear.make_estimator(tmp_path, keep_checkpoint_max=3, save_checkpoints_steps=100)
    estimator.train(linear.shuffled_input_fn, steps=1)
    found = names_of_checkpoints(tmp_path)
    whole = [name for name in found if name.endswith(".index")]
    assert len(whole) <= 3
    assert {"checkpoint", "graph.pbtxt"} < set(found)
    positions = [name for name in found if name.endswith(".input_position")]
    assert len(found) - len(positions) == 2 + 3 * len(whole), found
    last = estimator.latest_checkpoint().rpartition("/")[2]
    assert {name.removesuffix(".input_position") for name in positions} == {
        name.removesuffix(".index") for name in whole
    } - {last}
    print(f"{kills} kills, {left} of them left files behind, last step {reached}")

    compared = linear.make_estimator(tmp_path / "whole", save_checkpoints_steps=1000)
    last = int(estimator.get_variable_value("global_step"))
    compared.train(linear.shuffled_input_fn, max_steps=last)
    found, expected = linear.values(estimator), linear.values(compared)
    assert all((found[name] == expected[name]).all() for name in expected)
