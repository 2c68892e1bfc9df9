"""The optimizer's step: momentum, damping and its adaptation, the quadratic model.

The public optimizers are made of these parts.
"""
