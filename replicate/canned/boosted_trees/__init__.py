"""Boosted trees: estimators of ensembles of decision trees, on ordinary operations.

TensorFlow lists operations called BoostedTrees*, but has had no kernels for them since its
tf.estimator lost these estimators. So trees are variables here, and are grown and read by
operations that every TensorFlow has.
"""
