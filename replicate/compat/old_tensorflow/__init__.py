"""Parts of TensorFlow 1 outside tf.contrib and tf.estimator that TensorFlow lost.

They are private names that libraries import, and names with old arguments. All is written on public
names. The table tells which old name each stands for.
"""
