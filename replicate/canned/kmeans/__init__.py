"""K-means: an Estimator that clusters points, by full batches or mini-batches, on towers or not.

`estimator.py` owns the arguments, `model.py` the model_fn. The parts of a step are in `points.py`
(features → points), `distances.py` (points → nearest centers), `steps.py` (their sums → new
centers); `initialization.py` chooses the first centers, and `hooks.py` runs that.
"""

from replicate.canned.kmeans.clustering import KMeansClustering

__all__ = ["KMeansClustering"]
