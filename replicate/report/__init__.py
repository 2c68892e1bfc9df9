"""python -m replicate.report: a page with the curves of a run, from its event files.

Nothing is public, and nothing of the rest of the package imports this. `curves.py` reads,
`panels.py` chooses what is shown together, `pictures.py` draws and `page.py` writes.
"""
