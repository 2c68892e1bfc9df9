"""Benchmark of the time from an empty graph to the end of the first step."""
