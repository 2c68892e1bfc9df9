"""Estimation of curvature: back-propagated statistics, their placement, and block products.

The public `FisherEstimator` is made of these parts.
"""
