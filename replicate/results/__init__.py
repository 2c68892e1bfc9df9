"""Results of the towers, merged into one EstimatorSpec: losses, predictions, outputs, metrics."""
