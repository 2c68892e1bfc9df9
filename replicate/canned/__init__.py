"""Ready-made estimators and their parts: heads, parsing specs, optimizers by name, K-means.

Their public names are those of `replicate`.
"""
