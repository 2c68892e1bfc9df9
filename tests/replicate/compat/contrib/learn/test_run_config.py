"""The RunConfig of tf.contrib.learn becomes a replicate.RunConfig."""

import pytest

import replicate
from replicate.compat.contrib.learn import RunConfig


def test_settings_of_devices_become_a_session_config():
    config = RunConfig(gpu_memory_fraction=0.5, num_cores=3, save_checkpoints_steps=7)
    assert isinstance(config, replicate.RunConfig)
    options = config.session_config
    assert options.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert options.intra_op_parallelism_threads == options.inter_op_parallelism_threads == 3
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (7, None)


def test_defaults_are_those_of_old():
    config = RunConfig()
    assert (config.save_checkpoints_secs, config.tf_random_seed) == (600, None)
    assert config.replace(model_dir="runs/other").model_dir == "runs/other"


def test_addresses_are_refused():
    with pytest.raises(ValueError, match=r"master='grpc://a:1'.*TF_CONFIG"):
        RunConfig("grpc://a:1")
