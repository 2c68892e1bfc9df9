"""Model directories that one run holds, and the files of a run that are written whole or not."""

import contextlib
import errno
import threading

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import ModelDirInUseError
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.files import OptionalFiles, write_whole
from replicate.estimator.held_model_dir import held_model_dir
from replicate.estimator.lease import writer_lease
from replicate.estimator.lease.claim import is_held
from replicate.estimator.lease.lease_folder import newest_number
from replicate.estimator.run_config import RunConfig


@pytest.fixture(autouse=True)
def _quick_renewals(monkeypatch):
    monkeypatch.setattr(writer_lease, "RENEW_SECS", 0.1)


def config(folder, **settings):
    return RunConfig(str(folder), save_checkpoints_steps=5, **settings)


def test_only_the_process_that_saves_holds_the_lease(tmp_path):
    cluster = ClusterConfig({"chief": ("h:1",), "worker": ("h:2",)}, "worker", 0)
    with contextlib.suppress(KeyError), held_model_dir(config(tmp_path)) as directory:
        assert directory.writer == 1
        assert is_held(str(tmp_path))
        with held_model_dir(config(tmp_path, cluster=cluster)) as other:
            assert other is None
        with held_model_dir(config(tmp_path).replace(save_checkpoints_steps=0)) as other:
            assert other is None, "another job trains there"
        assert newest_number(str(tmp_path)) == 1
        raise KeyError
    assert not is_held(str(tmp_path)), "released after an error, too"
    with held_model_dir(config(tmp_path).replace(save_checkpoints_steps=0)) as directory:
        assert directory.writer == 0
    assert newest_number(str(tmp_path)) == 1


def test_a_run_that_was_taken_over_ends_with_the_error(tmp_path):
    run = held_model_dir(config(tmp_path))
    run.__enter__()
    with held_model_dir(config(tmp_path, steal_model_dir=True)):
        pass
    with pytest.raises(ModelDirInUseError, match="has taken over"):
        run.__exit__(None, None, None)


def test_a_directory_whose_leases_cannot_be_made_is_refused(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(13, "Operation not permitted", source)

    monkeypatch.setattr("os.rename", refuse)
    run = held_model_dir(config(tmp_path))
    with pytest.raises(ValueError, match=r"no writer lease can be taken there .*not permitted"):
        run.__enter__()


def test_a_second_training_in_a_thread_is_refused_before_its_first_step(linear, tmp_path):
    trains, may_end = threading.Event(), threading.Event()

    def wait(step):
        trains.set()
        assert may_end.wait(60)

    def train_first():
        linear.make_estimator(tmp_path).train(
            linear.input_fn, max_steps=6, hooks=[linear.CallHook(wait)]
        )

    thread = threading.Thread(target=train_first)
    thread.start()
    assert trains.wait(60)
    steps = []
    second = linear.make_estimator(tmp_path)
    with pytest.raises(ModelDirInUseError, match=r"trains there, and two training jobs"):
        second.train(linear.input_fn, max_steps=6, hooks=[linear.CallHook(steps.append)])
    assert steps == []
    may_end.set()
    thread.join()
    second.train(linear.input_fn, max_steps=8)
    np.testing.assert_allclose(second.get_variable_value("w"), linear.trained(8)[0], rtol=2e-6)


def test_a_job_that_is_stolen_from_stops_and_saves_nothing_more(linear, tmp_path):
    thief = linear.make_estimator(tmp_path, steal_model_dir=True)

    def steal(step):
        if step == 8:
            thief.train(linear.input_fn, max_steps=12)

    with pytest.raises(ModelDirInUseError, match="Training stops, and saves nothing more"):
        linear.make_estimator(tmp_path).train(
            linear.input_fn, max_steps=9, hooks=[linear.CallHook(steal)]
        )
    assert thief.latest_checkpoint() == f"{tmp_path}/model.ckpt-12"
    assert not (tmp_path / "model.ckpt-9.index").exists()
    np.testing.assert_allclose(thief.get_variable_value("w"), linear.trained(12)[0], rtol=2e-6)


PROGRAM = """
import logging
from replicate.estimator.log import log

log.warning("told %s", "once")
log.info("told by request only")
assert not logging.root.handlers, "what a program does not ask for must not be configured"
"""


def test_file_stays_if_the_new_one_cannot_be_moved(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise tf.errors.PermissionDeniedError(None, None, "no")

    path = tmp_path / "file"
    path.write_text("before")
    monkeypatch.setattr(tf.io.gfile, "rename", refuse)
    with pytest.raises(tf.errors.PermissionDeniedError):
        write_whole(str(path), "after", f"{path}.tmp")
    assert path.read_text() == "before"


def test_errors_of_both_kinds_are_one_warning_per_file(caplog):
    optional = OptionalFiles()
    faults = [
        OSError(errno.ENOSPC, "No space left on device"),
        tf.errors.ResourceExhaustedError(None, None, "/a; No space left on device"),
    ]
    for path in ("/a", "/b"):
        for fault in faults:
            with optional.writing(path):
                raise fault
    with pytest.raises(ValueError, match="mine"), optional.writing("/c"):
        raise ValueError("mine")
    assert [record.getMessage() for record in caplog.records] == [
        "/a cannot be written: No space left on device. The run goes on without it.",
        "/b cannot be written: No space left on device. The run goes on without it.",
    ]


def test_logging_configures_nothing(run_python):
    done = run_python(PROGRAM)
    assert done.code == 0, done.err
    assert done.err.count("told once") == 1
    assert "by request" not in done.err
