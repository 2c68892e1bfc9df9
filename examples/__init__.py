"""Programs to start from: each one runs on real data and is short enough to copy."""
