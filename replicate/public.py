"""The public names of `replicate`, each from the module that makes it.

Owns the list, and the error for a missing TensorFlow. `replicate/__init__.py` loads this module
when a name is first used; nothing else imports it. A name here must differ from all modules of the
package, unless it is the module itself: importing a module sets the attribute of its name.
"""

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "replicate needs TensorFlow, which is not installed: "
        "pip install 'replicate-model-fn[cpu]' (or [gpu])."
    ) from None

from replicate import export, inputs, model_average
from replicate.batch_ahead import prefetch_to_towers
from replicate.canned.kmeans import KMeansClustering
from replicate.canned.parsing import classifier_parse_example_spec, regressor_parse_example_spec
from replicate.check import ReplicationCheck, check_replication
from replicate.differences import Difference
from replicate.errors import (
    CheckpointError,
    ClusterConfigError,
    ClusterError,
    NonFiniteError,
    TrainingInterrupted,
)
from replicate.estimator import (
    BestExporter,
    Estimator,
    EvalSpec,
    Exporter,
    FinalExporter,
    InMemoryEvaluatorHook,
    LatestExporter,
    RunConfig,
    SyncReplicasHook,
    TaskType,
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
from replicate.model_average import (
    GLOBAL_VARIABLE_NAME,
    ModelAverageCustomGetter,
    ModelAverageOptimizer,
)
from replicate.model_fn import replicate_model_fn
from replicate.seeds import step_seed
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
from replicate.tower_optimizer import TowerOptimizer
from replicate.towers import TowerContext, current_tower, per_tower_collection
from replicate.variable_table import model_table

KMeans = KMeansClustering
"""The name in `tf.compat.v1.estimator.experimental`."""

__all__ = [
    "AVERAGE_LOSS_METRIC_KEY",
    "GLOBAL_VARIABLE_NAME",
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
    "KMeans",
    "KMeansClustering",
    "LatestExporter",
    "LoggingTensorHook",
    "ModeKeys",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
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
    "SyncReplicasHook",
    "TaskType",
    "TowerContext",
    "TowerOptimizer",
    "TrainSpec",
    "TrainingInterrupted",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "check_replication",
    "classifier_parse_example_spec",
    "current_tower",
    "export",
    "inputs",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "model_average",
    "model_table",
    "per_tower_collection",
    "prefetch_to_towers",
    "read_eval_metrics",
    "regressor_parse_example_spec",
    "replicate_model_fn",
    "step_seed",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
    "train_and_evaluate",
]
