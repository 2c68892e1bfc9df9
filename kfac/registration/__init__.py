"""Registration: tables of layers and losses, and one function per kind of layer or loss.

The public `LayerCollection` owns the tables and has the functions as methods.
"""
