"""Other K-FACs and other matrix optimizers, which run in virtual environments of their own."""
