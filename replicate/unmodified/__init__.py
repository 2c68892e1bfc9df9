"""All that bends TensorFlow or Python for programs that are written for one device and stay so.

Attributes of TensorFlow and Keras are replaced while towers are built, and functions carry marks.
Entry points, such as `replicate_model_fn` and `Estimator`, enter these contexts around the user's
code. What is heard goes into the `TowerBuild`: towers, optimizers and merged specs work without
this package, and do not import it.
"""
