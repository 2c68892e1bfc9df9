"""Modes of `examples.convnet` that need more than an Estimator.

Each mode has a file with a function `run`. `kfac_updates` is shared by two modes. The mode
`estimator` needs no more than `examples.training.run`. The network is in `examples.convnet_model`.
"""
