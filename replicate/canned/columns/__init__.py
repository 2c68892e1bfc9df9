"""Feature columns in a v1 graph, without Keras: inputs of a network, and linear models."""
