"""Benchmark of the time that K-FAC and others need to train a canned `DNNClassifier` to a loss."""
