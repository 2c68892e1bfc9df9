"""tensorflow.examples.tutorials.mnist: the digits from files, and a model of two hidden layers."""
