"""Fixers for fissix: what its own leave of Python 2. Their names and classes are as it asks."""
