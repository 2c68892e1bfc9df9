"""The runtime: what trains, evaluates and predicts with a model_fn.

Everything here works on an EstimatorSpec, whoever built it, and knows nothing of towers. The public
names are those below; the modules are read top-down from `estimator.py`.
"""

from replicate.estimator.checkpoint import CheckpointError
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig
from replicate.estimator.signals import TrainingInterrupted

__all__ = ["CheckpointError", "Estimator", "RunConfig", "TrainingInterrupted"]
