"""Other implementations of K-FAC, which run in virtual environments of their own."""
