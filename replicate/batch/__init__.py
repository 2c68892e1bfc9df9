"""Batches: cut into one shard for each tower, and sent to the towers' devices ahead of time."""
