"""Preprocessing of images, by name of the network: see `factory.get_preprocessing`."""
