"""tf.contrib.learn: experiments, exports, and the estimators before tf.estimator."""

from replicate.compat.contrib.learn import datasets, learn_runner, monitors, preprocessing
from replicate.compat.contrib.learn.canned import (
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearRegressor,
    infer_real_valued_columns_from_input,
)
from replicate.compat.contrib.learn.estimator import Estimator, ModelFnOps
from replicate.compat.contrib.learn.experiment import Experiment
from replicate.compat.contrib.learn.exports import (
    ExportStrategy,
    InputFnOps,
    build_default_serving_input_fn,
    build_parsing_serving_input_fn,
    make_export_strategy,
)
from replicate.compat.contrib.learn.metric_spec import (
    MetricSpec,
    PredictionKey,
    ProblemType,
)
from replicate.compat.contrib.learn.run_config import ModeKeys, RunConfig

__all__ = [
    "DNNClassifier",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "Experiment",
    "ExportStrategy",
    "InputFnOps",
    "LinearClassifier",
    "LinearRegressor",
    "MetricSpec",
    "ModeKeys",
    "ModelFnOps",
    "PredictionKey",
    "ProblemType",
    "RunConfig",
    "build_default_serving_input_fn",
    "build_parsing_serving_input_fn",
    "datasets",
    "infer_real_valued_columns_from_input",
    "learn_runner",
    "make_export_strategy",
    "monitors",
    "preprocessing",
]
