"""Model directory that a training run holds: its permission to change the files.

Owns the choice: the process that saves checkpoints needs the writer lease, and no other does. A run
that saves nothing may clean a directory if nobody else trains there.
"""

import contextlib
from collections.abc import Iterator

from replicate.estimator.checkpoints.fenced_model_dir import FencedModelDir, last_writer
from replicate.estimator.hooks.saving import saves_checkpoints
from replicate.estimator.lease.claim import claim_lease, is_held
from replicate.estimator.run_config import RunConfig


@contextlib.contextmanager
def held_model_dir(config: RunConfig) -> Iterator[FencedModelDir | None]:
    """Holds the writer lease of the model directory inside the context, if the run needs it.

    The directory must exist if this process is the chief.

    Yields:
      The directory; None if this run may not change them.

    Raises:
      ModelDirInUseError: Another training job holds the lease, or took it over meanwhile.
      ValueError: The file system refuses a lease.
    """
    model_dir = str(config.model_dir)
    if not config.is_chief:
        yield None
        return
    if not saves_checkpoints(config):
        yield None if is_held(model_dir) else FencedModelDir(model_dir)
        return
    try:
        lease = claim_lease(model_dir, config.steal_model_dir, last_writer(model_dir))
    except OSError as error:
        raise ValueError(
            f"Cannot train in model_dir {model_dir!r}: no writer lease can be taken there "
            f"({error}). Give a directory whose files this user may rename and delete."
        ) from error
    if lease is None:
        yield FencedModelDir(model_dir)
        return
    try:
        yield FencedModelDir(model_dir, lease)
        lease.check()
    finally:
        lease.release()
