import contextlib
import threading

import numpy as np
import pytest

from replicate.errors import ModelDirInUseError
from replicate.estimator.cluster_config import ClusterConfig
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
