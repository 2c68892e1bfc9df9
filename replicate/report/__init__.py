"""python -m replicate.report: writes a page with the curves of a run, from its event files.

`curves.py` reads the event files, `panels.py` selects the curves of each panel, `pictures.py` draws
the panels, and `page.py` writes the page. Nothing here is public.
"""
