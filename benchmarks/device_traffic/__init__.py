"""Traffic between devices in training steps, found without a GPU. Run it with `python -m`."""
