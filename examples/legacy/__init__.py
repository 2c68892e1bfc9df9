"""Programs as they were written in 2018, for tf.estimator and tf.layers.

Their `model_fn`s are unchanged but for the imports. They need the extra `legacy`, and set
TF_USE_LEGACY_KERAS before TensorFlow is imported, which gives tf.layers back.
"""
