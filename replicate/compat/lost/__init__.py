"""Lost parts of TensorFlow 1: private names that libraries import, and old arguments.

All is written on public names. The table tells which old name each stands for.
"""
