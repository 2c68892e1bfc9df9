"""Rewriting of programs of TensorFlow 1, so that they run on current TensorFlow without a runner.

`python -m replicate.migrate PATHS` shows what it would change, by the table of old names in
`replicate.compat.table`. `command.py` is the whole of it in steps: files are read (`files.py`,
`notebooks.py`) and parsed (`source.py`); `bindings.py` and `uses.py` find the old names;
`rewrite.py` decides about each; `program.py` adds the first lines that a program needs.
"""
