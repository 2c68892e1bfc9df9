"""Preprocessing of images. `factory.get_preprocessing` finds one by its name."""
