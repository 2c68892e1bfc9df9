"""Changes of TensorFlow, and marks on functions, for programs that stay as they are.

Attributes of TensorFlow and Keras are replaced while towers are built, and functions carry marks.
Entry points, such as `replicate_model_fn` and `Estimator`, enter these contexts around the user's
code. Losses that are heard are told to the `TowerBuild`. Towers, optimizers and merged specs work
without this package, and do not import it.
"""
