"""Checkpoints: reading, falling back to older ones, retention, and the input position beside them.

Nothing here decides when to save; `hooks.saving` does.
"""
