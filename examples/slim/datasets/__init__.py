"""Datasets of labelled images: their files, their sizes, and pipelines that read them."""
