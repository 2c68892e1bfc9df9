"""Keras models as Estimators: a compiled model is made anew in each graph that the runtime builds.

`conversion.py` has the public function. Keras is not imported here: the model brings its own, Keras
3 or tf_keras.
"""
