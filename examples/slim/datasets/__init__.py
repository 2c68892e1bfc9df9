"""Labelled images to classify: where they are, how many, and how to read them with tf.data."""
