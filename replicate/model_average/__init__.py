"""Model averaging: each worker trains weights of its own, and now and then all take their mean.

`getter.py` makes the weights twice, local and averaged; `optimizer.py` trains the local ones and
decides when to average; `rounds.py` is one averaging, over all workers, and `board.py` what they
tell each other for it; `hook.py` lets workers join, leave and get lost. Averages are saved under
the names of the weights (`replicate/checkpoint_names.py`), as in an ordinary model.

Reference: Stich (2019), "Local SGD Converges Fast and Communicates Little", arXiv 1805.09767.
"""

from replicate.checkpoint_names import saved_objects, saved_variables
from replicate.model_average.getter import GLOBAL_VARIABLE_NAME, ModelAverageCustomGetter
from replicate.model_average.optimizer import ModelAverageOptimizer

__all__ = [
    "GLOBAL_VARIABLE_NAME",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
    "saved_objects",
    "saved_variables",
]
