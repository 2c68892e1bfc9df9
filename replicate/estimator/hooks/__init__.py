"""Session hooks of the training loop, one file per hook, and the loop that calls them.

`stepping.PatientHook` is the base class: it says when a hook next has something to do.
"""
