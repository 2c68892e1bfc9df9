"""Registration: tables of layers and losses, and the rules for entering something.

The public `LayerCollection` is made of these parts.
"""
