"""Variables as users see them: the table of a model's variables, with notes."""
