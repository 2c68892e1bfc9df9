"""The optimizer's step, and the policies that refresh the curvature around it.

A step is made of momentum, damping and its adaptation, and the quadratic model. The public
optimizers are made of these parts.
"""
