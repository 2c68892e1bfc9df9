"""The runtime: trains, evaluates, predicts and exports with a model_fn.

The runtime works on any EstimatorSpec and knows nothing of towers. The public names are those
below. Start reading at `estimator.py`.
"""

from replicate.errors import (
    CheckpointError,
    ClusterConfigError,
    ClusterError,
    CutOffError,
    ModelDirInUseError,
    TrainingInterrupted,
)
from replicate.estimator.added_metrics import add_metrics
from replicate.estimator.cluster.sync_replicas import SyncReplicasHook
from replicate.estimator.early_stopping import (
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    read_eval_metrics,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from replicate.estimator.estimator import Estimator
from replicate.estimator.exporters import (
    BestExporter,
    Exporter,
    FinalExporter,
    LatestExporter,
)
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.in_memory_evaluation import InMemoryEvaluatorHook
from replicate.estimator.run_config import RunConfig
from replicate.estimator.train_and_evaluate import train_and_evaluate
from replicate.estimator.train_specs import EvalSpec, TrainSpec
from replicate.estimator.warm_start import VocabInfo, WarmStartSettings
from replicate.roles import TaskType

__all__ = [
    "BestExporter",
    "CheckpointError",
    "ClusterConfigError",
    "ClusterError",
    "CutOffError",
    "Estimator",
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "InMemoryEvaluatorHook",
    "LatestExporter",
    "ModelDirInUseError",
    "NextRun",
    "RunConfig",
    "ScheduledHook",
    "SyncReplicasHook",
    "TaskType",
    "TrainSpec",
    "TrainingInterrupted",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "read_eval_metrics",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
    "train_and_evaluate",
]
