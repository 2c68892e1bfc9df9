"""Adaptive K-FAC of Keras with nothing chosen: which of many runs diverge."""
