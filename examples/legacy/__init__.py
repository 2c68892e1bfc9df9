"""Programs as they were written in 2018, for tf.estimator and tf.layers.

Their `model_fn`s are unchanged but for the imports and the homes of layers and cells.
"""
