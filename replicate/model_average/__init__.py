"""Model averaging: each worker trains its own weights, and workers average them at intervals.

A getter of variables makes each weight twice: the worker's local variable and the shared average,
its center. The optimizer trains the local weights and decides when to average. Averages are saved
under the names of the weights, so checkpoints look like those of an ordinary model.

Reference: Stich (2019), "Local SGD Converges Fast and Communicates Little", arXiv 1805.09767.
"""

# `rounds.py` is one averaging over all workers, `round_state.py` holds the shared state for it.
# `hook.py` lets workers join, leave, and get lost.

from replicate.model_average.getter import GLOBAL_VARIABLE_NAME, ModelAverageCustomGetter
from replicate.model_average.optimizer import ModelAverageOptimizer
from replicate.saved.checkpoint_names import saved_objects, saved_variables

__all__ = [
    "GLOBAL_VARIABLE_NAME",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
    "saved_objects",
    "saved_variables",
]
