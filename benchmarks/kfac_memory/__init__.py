"""Memory that K-FAC keeps on each GPU, found without a GPU. Run it with `python -m`."""
