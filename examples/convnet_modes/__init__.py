"""How `examples.convnet` trains where that is not an Estimator's business alone.

A file for each of its modes, with a function `run`, and one for what two of them share. The mode
`estimator` needs no more than `examples.training.run`. The network is in `examples.convnet_model`.
"""
