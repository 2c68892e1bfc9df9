"""tf-slim, with what is broken in it on current TensorFlow put right."""
