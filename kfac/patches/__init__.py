"""Second moments of convolution inputs: geometry, and the fast ways to compute them.

`second_moment` chooses among them by estimated cost.
"""
