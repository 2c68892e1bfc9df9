"""TPUEstimator and its kin, for programs that also run without a TPU: with use_tpu=False.

The names are those of `tf.compat.v1.estimator.tpu` and `tf.contrib.tpu`. A model_fn that returns a
`TPUEstimatorSpec` runs on CPUs and GPUs, on several of them with `TPUEstimator(devices=…)`. What
only matters on a TPU is accepted and has no effect, and use_tpu=True is refused.
"""

import tensorflow as tf

from replicate.tpu.config import InputPipelineConfig, RunConfig, TPUConfig
from replicate.tpu.estimator import TPUEstimator
from replicate.tpu.optimizer import CrossShardOptimizer
from replicate.tpu.resolver import TPUClusterResolver
from replicate.tpu.spec import TPUEstimatorSpec

v1 = tf.compat.v1

bfloat16_scope = v1.tpu.bfloat16_scope

__all__ = [
    "CrossShardOptimizer",
    "InputPipelineConfig",
    "RunConfig",
    "TPUClusterResolver",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
    "bfloat16_scope",
]
