"""Runs one Estimator `model_fn` on many devices, and everything it takes to train it.

`replicate_model_fn` and `TowerOptimizer` make a replicated model_fn of an ordinary one; `Estimator`
trains, evaluates and predicts with it.
"""

import importlib.metadata

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "replicate needs TensorFlow, which is not installed: "
        "pip install 'replicate-model-fn[cpu]' (or [gpu])."
    ) from None

from replicate import export, inputs
from replicate.check import Difference, ReplicationCheck, check_replication
from replicate.errors import NonFiniteError
from replicate.estimator import (
    BestExporter,
    CheckpointError,
    ClusterConfigError,
    ClusterError,
    Estimator,
    EvalSpec,
    Exporter,
    FinalExporter,
    InMemoryEvaluatorHook,
    LatestExporter,
    RunConfig,
    TaskType,
    TrainingInterrupted,
    TrainSpec,
    VocabInfo,
    WarmStartSettings,
    add_metrics,
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    read_eval_metrics,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
    train_and_evaluate,
)
from replicate.loss_scale import DynamicLossScale
from replicate.model_fn import replicate_model_fn
from replicate.model_table import model_table
from replicate.session_hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from replicate.spec import AVERAGE_LOSS_METRIC_KEY, LOSS_METRIC_KEY, EstimatorSpec, ModeKeys
from replicate.step_seed import step_seed
from replicate.tower_optimizer import TowerOptimizer
from replicate.towers import TowerContext, current_tower, per_tower_collection

__version__ = importlib.metadata.version("replicate-model-fn")

__all__ = [
    "AVERAGE_LOSS_METRIC_KEY",
    "LOSS_METRIC_KEY",
    "BestExporter",
    "CheckpointError",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "ClusterConfigError",
    "ClusterError",
    "Difference",
    "DynamicLossScale",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FeedFnHook",
    "FinalExporter",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "InMemoryEvaluatorHook",
    "LatestExporter",
    "LoggingTensorHook",
    "ModeKeys",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NonFiniteError",
    "ProfilerHook",
    "ReplicationCheck",
    "RunConfig",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TaskType",
    "TowerContext",
    "TowerOptimizer",
    "TrainSpec",
    "TrainingInterrupted",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "check_replication",
    "current_tower",
    "export",
    "inputs",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "model_table",
    "per_tower_collection",
    "read_eval_metrics",
    "replicate_model_fn",
    "step_seed",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
    "train_and_evaluate",
]
