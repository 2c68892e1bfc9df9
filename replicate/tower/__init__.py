"""Towers while they are built: scopes, shared state, collections, shares of the batch, and seeds.

Knows nothing of the optimizer's update or of batch normalization, which use it.
"""
