"""Registration: tables of layers and losses, and one function per kind that adds to them.

The public `LayerCollection` owns the tables and has the functions as methods.
"""
