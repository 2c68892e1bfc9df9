import dataclasses

import pytest
import tensorflow as tf

from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


def test_defaults():
    config = RunConfig()
    assert dataclasses.asdict(config) == {
        "model_dir": None,
        "tf_random_seed": 1,
        "save_summary_steps": 100,
        "save_checkpoints_steps": None,
        "save_checkpoints_secs": 600,
        "session_config": None,
        "keep_checkpoint_max": 5,
        "keep_checkpoint_every_n_hours": 10000,
        "log_step_count_steps": 100,
        "progress": "auto",
    }


def test_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().model_dir = "a"


def test_saving_by_steps_switches_saving_by_seconds_off():
    assert RunConfig(save_checkpoints_steps=10).save_checkpoints_secs is None


def test_replace_keeps_the_rest():
    config = RunConfig(tf_random_seed=3).replace(model_dir="a")
    assert (config.tf_random_seed, config.model_dir) == (3, "a")


def test_replace_swaps_the_checkpoint_interval():
    by_steps = RunConfig().replace(save_checkpoints_steps=7)
    assert (by_steps.save_checkpoints_steps, by_steps.save_checkpoints_secs) == (7, None)
    by_seconds = by_steps.replace(save_checkpoints_secs=9)
    assert (by_seconds.save_checkpoints_steps, by_seconds.save_checkpoints_secs) == (None, 9)
    assert by_steps.replace(model_dir="a").save_checkpoints_steps == 7


def test_replace_refuses_unknown_settings():
    with pytest.raises(ValueError, match=r"Cannot replace \['save_steps'\]"):
        RunConfig().replace(save_steps=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"save_checkpoints_steps": 1, "save_checkpoints_secs": 1}, "got both"),
        ({"save_checkpoints_steps": 0}, "save_checkpoints_steps must be .* >= 1"),
        ({"save_checkpoints_secs": 0}, "save_checkpoints_secs must be greater than 0"),
        ({"save_checkpoints_secs": float("nan")}, "save_checkpoints_secs must be greater"),
        ({"save_summary_steps": 0}, "save_summary_steps must be"),
        ({"log_step_count_steps": 1.5}, "log_step_count_steps must be a whole number"),
        ({"keep_checkpoint_max": -1}, "keep_checkpoint_max must be .* >= 0"),
        ({"keep_checkpoint_every_n_hours": 0}, "keep_checkpoint_every_n_hours must be"),
        ({"progress": "loud"}, "progress must be one of .* got 'loud'"),
        ({"model_dir": ""}, "model_dir is"),
    ],
)
def test_wrong_settings(settings, text):
    with pytest.raises(ValueError, match=text):
        RunConfig(**settings)


def test_session_config_must_be_a_config_proto():
    assert RunConfig(session_config=v1.ConfigProto()).session_config is not None
    with pytest.raises(TypeError, match=r"must be a tf.compat.v1.ConfigProto"):
        RunConfig(session_config={"gpu": 1})
