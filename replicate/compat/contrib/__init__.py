"""tf.contrib: what old programs used of it, one module per package."""
