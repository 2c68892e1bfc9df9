"""TF-slim's training programs on `model_deploy`, with their networks and datasets."""
