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
        "pip install tensorflow-cpu (or, for GPUs, 'tensorflow[and-cuda]')."
    ) from None

from replicate import export, inputs, model_average, tpu
from replicate.all_reduce.input import worker_share
from replicate.all_reduce.settings import AllReduce
from replicate.batch.ahead import prefetch_to_towers
from replicate.canned.baseline import BaselineClassifier, BaselineEstimator, BaselineRegressor
from replicate.canned.boosted_trees.estimators import (
    BoostedTreesClassifier,
    BoostedTreesEstimator,
    BoostedTreesRegressor,
)
from replicate.canned.boosted_trees.in_memory import (
    boosted_trees_classifier_train_in_memory,
    boosted_trees_regressor_train_in_memory,
)
from replicate.canned.combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from replicate.canned.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from replicate.canned.heads import (
    BinaryClassHead,
    Head,
    LogisticRegressionHead,
    MultiClassHead,
    MultiHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
    SequentialHeadWrapper,
    binary_classification_head,
    logistic_regression_head,
    multi_class_head,
    multi_head,
    multi_label_head,
    poisson_regression_head,
    regression_head,
)
from replicate.canned.kmeans import KMeansClustering
from replicate.canned.linear import LinearClassifier, LinearEstimator, LinearRegressor
from replicate.canned.linear_part import linear_logit_fn_builder
from replicate.canned.network import dnn_logit_fn_builder
from replicate.canned.parsing import classifier_parse_example_spec, regressor_parse_example_spec
from replicate.canned.parts import call_logit_fn
from replicate.comparison.check import ReplicationCheck, check_replication
from replicate.comparison.differences import Difference
from replicate.errors import (
    CheckpointError,
    ClusterConfigError,
    ClusterError,
    CutOffError,
    ModelDirInUseError,
    NonFiniteError,
    TrainingInterrupted,
    WorkersDifferError,
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
from replicate.estimator.hooks.stock import (
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
from replicate.gradients.loss_scale import DynamicLossScale
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.keras_model.conversion import model_to_estimator
from replicate.model_average import (
    GLOBAL_VARIABLE_NAME,
    ModelAverageCustomGetter,
    ModelAverageOptimizer,
)
from replicate.model_fn import replicate_model_fn
from replicate.spec import AVERAGE_LOSS_METRIC_KEY, LOSS_METRIC_KEY, EstimatorSpec, ModeKeys
from replicate.tower.build import TowerContext, current_tower, per_tower_collection
from replicate.tower.seeds import step_seed
from replicate.variables.table import model_table

KMeans = KMeansClustering
"""The name in `tf.compat.v1.estimator.experimental`."""

__all__ = [
    "AVERAGE_LOSS_METRIC_KEY",
    "GLOBAL_VARIABLE_NAME",
    "LOSS_METRIC_KEY",
    "AllReduce",
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "BestExporter",
    "BinaryClassHead",
    "BoostedTreesClassifier",
    "BoostedTreesEstimator",
    "BoostedTreesRegressor",
    "CheckpointError",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "ClusterConfigError",
    "ClusterError",
    "CutOffError",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
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
    "Head",
    "InMemoryEvaluatorHook",
    "KMeans",
    "KMeansClustering",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "LoggingTensorHook",
    "LogisticRegressionHead",
    "ModeKeys",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
    "ModelDirInUseError",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NonFiniteError",
    "PoissonRegressionHead",
    "ProfilerHook",
    "RegressionHead",
    "ReplicationCheck",
    "RunConfig",
    "SecondOrStepTimer",
    "SequentialHeadWrapper",
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
    "WorkersDifferError",
    "add_metrics",
    "binary_classification_head",
    "boosted_trees_classifier_train_in_memory",
    "boosted_trees_regressor_train_in_memory",
    "call_logit_fn",
    "check_replication",
    "classifier_parse_example_spec",
    "current_tower",
    "dnn_logit_fn_builder",
    "export",
    "inputs",
    "linear_logit_fn_builder",
    "logistic_regression_head",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "model_average",
    "model_table",
    "model_to_estimator",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "per_tower_collection",
    "poisson_regression_head",
    "prefetch_to_towers",
    "read_eval_metrics",
    "regression_head",
    "regressor_parse_example_spec",
    "replicate_model_fn",
    "step_seed",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
    "tpu",
    "train_and_evaluate",
    "worker_share",
]
