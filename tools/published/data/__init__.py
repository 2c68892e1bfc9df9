"""Tiny data for programs, made in a folder. The same numbers come out each time."""
