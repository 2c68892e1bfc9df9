"""Ready-made models of tf.estimator: heads, and what is built on them."""
