"""The RunConfig and the ModeKeys of tf.contrib.learn."""

from typing import Any

import tensorflow as tf

from replicate.estimator.run_config import RunConfig as _RunConfig

v1 = tf.compat.v1


class ModeKeys:
    """Modes of a model_fn. INFER is the PREDICT of `replicate.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


class RunConfig(_RunConfig):
    """`replicate.RunConfig`, with the arguments of tf.contrib.learn in their order."""

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1.0,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: float | None = 600,
        save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: str | None = None,
        session_config: Any = None,
        session_creation_timeout_secs: float | None = 7200,
    ) -> None:
        """Turns the settings of devices into a session_config, unless that is given.

        `master` and `evaluation_master` must be empty: clusters are read from TF_CONFIG.
        `num_cores` are the threads of a session within and between operations, 0 for the default;
        `gpu_memory_fraction` is the share of a GPU's memory that the process takes, in (0, 1].
        `log_device_placement` prints the device of each operation. Without `tf_random_seed` runs
        are unpredictable. The other arguments are those of `replicate.RunConfig`.

        Raises:
          ValueError: A master is given, or a setting is out of range.
        """
        if master or evaluation_master:
            raise ValueError(
                f"RunConfig was called with master={master!r} and "
                f"evaluation_master={evaluation_master!r}, which must be empty: describe the "
                "cluster in the environment variable TF_CONFIG."
            )
        if save_checkpoints_steps is not None:
            save_checkpoints_secs = None
        super().__init__(
            model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config
            or _session_config(num_cores, log_device_placement, gpu_memory_fraction),
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
        )


def _session_config(num_cores: int, log_device_placement: bool, gpu_memory: float) -> Any:
    if not num_cores and not log_device_placement and gpu_memory == 1:
        return None
    return v1.ConfigProto(
        allow_soft_placement=True,
        log_device_placement=log_device_placement,
        inter_op_parallelism_threads=num_cores,
        intra_op_parallelism_threads=num_cores,
        gpu_options=v1.GPUOptions(per_process_gpu_memory_fraction=gpu_memory),
    )
