"""A character model of Python source: steps and seconds to a loss on held-out text."""
