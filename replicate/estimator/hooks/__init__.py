"""Session hooks of the training loop, one file per hook, and the loop that calls them.

Every hook extends `scheduled_hook.ScheduledHook`, which says when the hook runs next. A new hook is
a new file here; `replicate.estimator.training` puts it into the list of hooks of a run.
"""
