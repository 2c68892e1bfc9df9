import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import ModelDirInUseError, SaveError
from replicate.estimator.checkpoints import free_space
from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.saving import CheckpointHook, build_saver, saves_checkpoints
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook
from replicate.estimator.lease.claim import claim_lease
from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


class Recorder(v1.train.CheckpointSaverListener):
    """Notes every call."""

    def __init__(self, stop_at=None):
        self.calls = []
        self.stop_at = stop_at

    def begin(self):
        self.calls.append("begin")

    def before_save(self, session, global_step_value):
        self.calls.append(f"before {global_step_value}")

    def after_save(self, session, global_step_value):
        self.calls.append(f"after {global_step_value}")
        return global_step_value == self.stop_at

    def end(self, session, global_step_value):
        self.calls.append(f"end {global_step_value}")


class Position:
    """The position of an input, as far as the hook knows it."""

    def save(self, session, checkpoint):
        pathlib.Path(f"{checkpoint}.input_position").write_text("")


def run(folder, steps, *listeners, restore=None, continues_input=False, directory=None, **settings):
    """Counts steps in a new graph and returns the number reached."""
    config = RunConfig(**{"save_checkpoints_steps": 2, **settings})
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        train_op = v1.assign_add(step, 1).op
        scaffold = v1.train.Scaffold()
        saver = build_saver(scaffold, config)
        readings = StepReadings(train_op, tf.constant(1.0))
        hook = CheckpointHook(
            directory or FencedModelDir(str(folder)),
            saver,
            readings,
            config,
            Position(),
            listeners,
            lambda: continues_input,
        )
        creator = v1.train.ChiefSessionCreator(scaffold, checkpoint_filename_with_path=restore)
        loop = StepLoop(readings, [StopHook(readings, steps), hook])
        with v1.train.MonitoredSession(creator, loop.hooks) as session:
            loop.run(session)
        return hook.saved


def saved_steps(folder):
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("*.index"))


def test_saves_first_last_and_one_per_interval(tmp_path):
    folder, recorder = tmp_path / "a", Recorder()
    folder.mkdir()
    assert run(folder, 5, recorder) == (5, f"{folder}/model.ckpt-5")
    assert saved_steps(folder) == [0, 2, 4, 5]
    calls = [f"{call} {step}" for step in saved_steps(folder) for call in ("before", "after")]
    assert recorder.calls == ["begin", *calls, "end 5"]
    folder.rename(tmp_path / "b")
    assert v1.train.latest_checkpoint(f"{tmp_path}/b") == f"{tmp_path}/b/model.ckpt-5"


def test_seconds_interval_saves_first_and_last_only_in_a_short_run(tmp_path):
    run(tmp_path, 5, save_checkpoints_steps=None, save_checkpoints_secs=1e6)
    assert saved_steps(tmp_path) == [0, 5]


def positions(folder):
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("*.input_position"))


@pytest.mark.parametrize("steps", [4, 5])
def test_position_of_the_last_step_is_for_interrupted_runs_only(tmp_path, steps):
    for name in ("ended", "interrupted"):
        (tmp_path / name).mkdir()
    run(tmp_path / "ended", steps)
    assert positions(tmp_path / "ended") == [0, 2, 4][: (steps + 1) // 2]
    run(tmp_path / "interrupted", steps, continues_input=True)
    assert positions(tmp_path / "interrupted") == saved_steps(tmp_path / "interrupted")


def test_positions_are_deleted_with_their_checkpoints(tmp_path):
    run(tmp_path, 7, keep_checkpoint_max=2)
    assert saved_steps(tmp_path) == [6, 7]
    assert positions(tmp_path) == [6]


def test_end_without_a_step_removes_the_position_it_began_with(tmp_path):
    _, path = run(tmp_path, 4, continues_input=True)
    assert positions(tmp_path) == [0, 2, 4]
    run(tmp_path, 0, restore=path, save_input_position=False)
    assert positions(tmp_path) == [0, 2]


def test_restored_step_is_not_saved_again_and_a_listener_can_stop_training(tmp_path):
    _, path = run(tmp_path, 2)
    recorder = Recorder(stop_at=4)
    run(tmp_path, 9, recorder, restore=path)
    assert recorder.calls == ["begin", "before 4", "after 4", "end 4"]


@pytest.mark.parametrize("has_state_file", [True, False])
def test_kept_list_survives_a_restart(tmp_path, has_state_file):
    _, path = run(tmp_path, 5, keep_checkpoint_max=3)
    assert saved_steps(tmp_path) == [2, 4, 5]
    if not has_state_file:
        (tmp_path / "checkpoint").unlink()
    run(tmp_path, 3, restore=path, keep_checkpoint_max=3)
    assert saved_steps(tmp_path) == [5, 7, 8]


def test_index_that_is_a_link_to_nowhere_does_not_count(tmp_path):
    run(tmp_path, 2)
    (tmp_path / "model.ckpt-0.index").unlink()
    (tmp_path / "model.ckpt-0.index").symlink_to("/absent/file")
    run(tmp_path, 4, restore=f"{tmp_path}/model.ckpt-2", keep_checkpoint_max=2)
    assert saved_steps(tmp_path) == [0, 4, 6]


def test_a_run_saves_checkpoints_if_there_is_an_interval():
    assert saves_checkpoints(RunConfig())
    assert saves_checkpoints(RunConfig(save_checkpoints_steps=5))
    for none in ({"save_checkpoints_steps": None}, {"save_checkpoints_secs": 0}):
        assert not saves_checkpoints(RunConfig(**none))


class Blocker(Recorder):
    """Puts a directory in the place of a file before some saves, and removes it after them."""

    def __init__(self, path, steps):
        super().__init__()
        self.path = path
        self.steps = steps

    def before_save(self, session, global_step_value):
        super().before_save(session, global_step_value)
        if global_step_value in self.steps:
            (self.path / "a").mkdir(parents=True)
        elif (self.path / "a").is_dir():
            shutil.rmtree(self.path)


@pytest.mark.parametrize("name", ["checkpoint.saving", "model.ckpt-4.index"])
def test_a_failed_save_stops_training_and_leaves_what_was_there(tmp_path, name):
    blocker = Blocker(tmp_path / name, [4])
    with pytest.raises(SaveError, match=r"^Cannot save .*/model.ckpt-4: ") as caught:
        run(tmp_path, 6, blocker)
    assert "The checkpoints before it are whole." in str(caught.value)
    assert blocker.calls[-2:] == ["after 2", "before 4"]
    assert v1.train.latest_checkpoint(str(tmp_path)) == f"{tmp_path}/model.ckpt-2"
    assert int(v1.train.load_variable(str(tmp_path), "global_step")) == 2
    assert not list(tmp_path.glob("model.ckpt-4.[!i]*"))


@pytest.mark.parametrize("name", ["checkpoint.saving", "model.ckpt-4.data-00000-of-00001"])
def test_retry_trains_on_and_saves_at_the_next_interval(tmp_path, name, caplog):
    blocker = Blocker(tmp_path / name, [4])
    run(tmp_path, 7, blocker, on_save_error="retry", keep_checkpoint_max=2)
    assert blocker.calls[-7:] == ["after 2", "before 4", *step_calls(6), *step_calls(7), "end 7"]
    assert caplog.text.count("Training goes on and saves at the next interval.") == 1
    assert "start again" not in caplog.text
    state = v1.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == [
        f"{tmp_path}/model.ckpt-{step}" for step in (6, 7)
    ]
    assert saved_steps(tmp_path) == [6, 7]
    assert not list(tmp_path.glob("model.ckpt-4*"))


def step_calls(step):
    return [f"before {step}", f"after {step}"]


def test_retry_keeps_the_older_checkpoints_when_only_the_state_file_fails(tmp_path, caplog):
    state, kept = tmp_path / "checkpoint", tmp_path / "kept"
    found = {}

    class Swap(Recorder):
        def before_save(self, session, global_step_value):
            found[global_step_value] = sorted(path.stem for path in tmp_path.glob("*.index"))
            if global_step_value == 4:
                state.rename(kept)
                (state / "a").mkdir(parents=True)
            elif kept.exists():
                shutil.rmtree(state)
                kept.rename(state)

    run(tmp_path, 8, Swap(), on_save_error="retry", keep_checkpoint_max=2)
    assert caplog.text.count("Training goes on") == 1
    assert found[6] == ["model.ckpt-0", "model.ckpt-2"]
    listed = v1.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert list(listed) == [f"{tmp_path}/model.ckpt-{step}" for step in (6, 8)]
    for path in listed:
        assert int(v1.train.load_variable(path, "global_step")) == int(path[-1])


@pytest.mark.parametrize("mode", ["stop", "retry"])
def test_the_last_save_is_an_error_in_both_modes(tmp_path, mode):
    with pytest.raises(SaveError, match=r"model.ckpt-3: .*start again"):
        run(tmp_path, 3, Blocker(tmp_path / "checkpoint.saving", [3]), on_save_error=mode)
    assert v1.train.latest_checkpoint(str(tmp_path)) == f"{tmp_path}/model.ckpt-2"


def test_too_little_room_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    run(tmp_path, 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(free_space, "free_bytes", lambda folder: 17)
    with pytest.raises(SaveError, match=rf"needs [\d,]+ bytes, and {tmp_path} has 17 bytes free"):
        run(tmp_path, 4, restore=f"{tmp_path}/model.ckpt-2")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after == before


def test_a_directory_that_is_gone_is_named(tmp_path):
    class Remover(Recorder):
        def before_save(self, session, global_step_value):
            if global_step_value == 2:
                shutil.rmtree(tmp_path / "a")

    (tmp_path / "a").mkdir()
    with pytest.raises(SaveError, match=rf"{tmp_path}/a was removed or replaced while training"):
        run(tmp_path / "a", 4, Remover())


@pytest.mark.parametrize("in_scaffold", [True, False])
def test_a_saver_of_the_model_is_used(graph, in_scaffold):
    v1.get_variable("w", initializer=np.float32(1))
    own = v1.train.Saver()
    scaffold = v1.train.Scaffold(saver=own if in_scaffold else None)
    if not in_scaffold:
        v1.add_to_collection(v1.GraphKeys.SAVERS, own)
    assert build_saver(scaffold, RunConfig()) is own
    scaffold.finalize()
    assert scaffold.saver is own


def checkpoint_contents(folder):
    """All files but those of leases."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def held_directory(folder, **arguments):
    lease = claim_lease(str(folder), **arguments)
    return lease, FencedModelDir(str(folder), lease)


@pytest.mark.parametrize(
    "stride", [pytest.param(3, marks=pytest.mark.broad), pytest.param(1, marks=pytest.mark.slow)]
)
def test_a_writer_that_stops_before_any_change_of_a_save_is_harmless(tmp_path, monkeypatch, stride):
    """Another writer takes over before the first, second ... change that a run makes."""
    changes, moment, theirs = 0, 1 - stride, {}

    def take_over(folder):
        lease, directory = held_directory(folder, steal=True)
        newest = v1.train.latest_checkpoint(str(folder))
        run(folder, 2, restore=newest, directory=directory, keep_checkpoint_max=1)
        lease.release()
        theirs.update(checkpoint_contents(folder))

    def stopping(change):
        def changed(*arguments, **options):
            nonlocal changes
            changes += 1
            if changes == moment:
                take_over(tmp_path / str(moment))
            return change(*arguments, **options)

        return changed

    for name in ("rename", "remove", "GFile"):
        monkeypatch.setattr(tf.io.gfile, name, stopping(getattr(tf.io.gfile, name)))
    monkeypatch.setattr(v1.train.Saver, "save", stopping(v1.train.Saver.save))
    while changes in (0, moment):
        changes, moment = 0, moment + stride
        folder = tmp_path / str(moment)
        folder.mkdir()
        lease, directory = held_directory(folder)
        theirs.clear()
        try:
            run(folder, 1, directory=directory, keep_checkpoint_max=1)
        except ModelDirInUseError:
            assert checkpoint_contents(folder) == theirs, f"change {moment}"
            changes = moment
        lease.release()
    assert moment > 20
    assert theirs == {}, "the last run was not disturbed"
    assert saved_steps(folder) == [1]
