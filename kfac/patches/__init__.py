"""Second moments of convolution inputs: the plain formula, and faster ways to compute it.

`second_moment` chooses among them by estimated cost.
"""
