"""Saved state: names in checkpoints, state that a checkpoint may lack, errors of a full disk."""
