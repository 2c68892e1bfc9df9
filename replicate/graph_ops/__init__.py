"""Small parts of graphs: conditionals, checks in a step, finite values, described operations."""
