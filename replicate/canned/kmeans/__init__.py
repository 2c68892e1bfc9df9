"""K-means: an Estimator that clusters points, by full batches or mini-batches, on towers or not.

`clustering.py` owns the arguments, `model.py` the model_fn, with the points of features. The parts
of a step are in `distances.py` (points → nearest centers) and `steps.py` (their sums → new
centers); `initialization.py` chooses the first centers, and `hooks.py` runs that.
"""

from replicate.canned.kmeans.clustering import KMeansClustering

__all__ = ["KMeansClustering"]
