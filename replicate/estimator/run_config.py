"""RunConfig: how an Estimator runs, as one frozen value.

Owns the settings that are about running and not about the model: where files go, how often things
are saved and logged, seeds and session options. It is checked once, when it is made, and handed
down; nothing reads settings from anywhere else.
"""

import dataclasses
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

PROGRESS_MODES = ("auto", "bar", "log", "off")
_DEFAULT_SAVE_SECS = 600


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of an Estimator's runs.

    Attributes:
      model_dir: Directory of checkpoints and event files, made when absent.
      tf_random_seed: Graph-level seed, None for an unpredictable one.
      save_summary_steps: Steps between two summaries, None for no summaries.
      save_checkpoints_steps: Steps between two checkpoints. Excludes `save_checkpoints_secs`.
      save_checkpoints_secs: Seconds between two checkpoints; 600 when neither is given. The first
        and the last step are saved whatever this says.
      session_config: A ConfigProto, or None for one that allows soft placement.
      keep_checkpoint_max: Checkpoints kept in the directory, 0 or None to keep all.
      keep_checkpoint_every_n_hours: One checkpoint in that many hours is kept for ever.
      log_step_count_steps: Steps between two `global_step/sec` events, None for none.
      progress: "bar" draws a progress bar, "log" prints a line per interval, "auto" takes the bar
        when standard error is a terminal and lines otherwise, "off" shows nothing.
    """

    model_dir: str | None = None
    tf_random_seed: int | None = 1
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: float | None = None
    session_config: Any = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int | None = 100
    progress: str = "auto"

    def __post_init__(self) -> None:
        """Checks every setting.

        Raises:
          ValueError: A setting is out of range, or both checkpoint intervals are given.
          TypeError: session_config is not a ConfigProto.
        """
        if self.model_dir is not None and not str(self.model_dir):
            raise ValueError(
                'RunConfig: model_dir is "". Give a directory, or None for a temporary one.'
            )
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError(
                "RunConfig: checkpoints are saved by steps or by seconds, got both "
                f"save_checkpoints_steps={self.save_checkpoints_steps!r} and "
                f"save_checkpoints_secs={self.save_checkpoints_secs!r}. Give one of them."
            )
        if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
            object.__setattr__(self, "save_checkpoints_secs", _DEFAULT_SAVE_SECS)
        for name in ("save_summary_steps", "save_checkpoints_steps", "log_step_count_steps"):
            self._check_at_least(name, 1)
        self._check_at_least("keep_checkpoint_max", 0)
        self._check_positive("save_checkpoints_secs")
        self._check_positive("keep_checkpoint_every_n_hours")
        if self.progress not in PROGRESS_MODES:
            raise ValueError(
                f"RunConfig: progress must be one of {list(PROGRESS_MODES)}, got "
                f"{self.progress!r}. Correct it."
            )
        if self.session_config is not None and not isinstance(self.session_config, v1.ConfigProto):
            raise TypeError(
                "RunConfig: session_config must be a tf.compat.v1.ConfigProto, got "
                f"{self.session_config!r}. Pass None for the default."
            )

    def replace(self, **changes: Any) -> "RunConfig":
        """Returns a copy with some settings changed, checked like a new one.

        Giving one of the two checkpoint intervals takes the place of the other.

        Raises:
          ValueError: A setting is out of range or unknown.
        """
        known = [field.name for field in dataclasses.fields(self)]
        unknown = sorted(set(changes) - set(known))
        if unknown:
            raise ValueError(
                f"Cannot replace {unknown} in a RunConfig: its settings are {known}. "
                "Correct the name."
            )
        intervals = ("save_checkpoints_steps", "save_checkpoints_secs")
        if any(changes.get(name) is not None for name in intervals):
            changes = {**dict.fromkeys(intervals), **changes}
        return dataclasses.replace(self, **changes)

    def _check_at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is not None and (not isinstance(value, int) or value < least):
            raise ValueError(
                f"RunConfig: {name} must be a whole number >= {least} or None, got {value!r}. "
                "Correct it."
            )

    def _check_positive(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and not value > 0:
            raise ValueError(
                f"RunConfig: {name} must be greater than 0, got {value!r}. Correct it."
            )
