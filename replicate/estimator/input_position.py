"""The position of the input pipeline, as a part of the checkpoint.

Owns what it takes to continue a tf.data pipeline in the middle: whether its state can be written at
all, the saver entry that writes it beside the variables, and its restoration. A pipeline whose
state cannot be written or does not fit is begun anew, with one warning; that never stops training.
Only training uses this: evaluation and prediction always read their input from the start.
"""

import inspect

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.estimator.log import log

v1 = tf.compat.v1

SCOPE = "input_pipeline"
"""Name scope of the iterator, hence the first part of its key in a checkpoint."""


class InputPosition:
    """Saves and restores how far a dataset iterator has come.

    It belongs to a graph, and every session of that graph starts it with `begin`.
    """

    def __init__(self, iterator: Tensor):
        """Adds the operations that write and read the state to the iterator's graph.

        Args:
          iterator: An initializable iterator of `tf.compat.v1.data`, made inside name scope SCOPE.
        """
        self._initializer = iterator.initializer
        # Unwrapped: TensorFlow would advise every user to do without v1 savers.
        make_saveable = inspect.unwrap(v1.data.experimental.make_saveable_from_iterator)
        self.saveable = make_saveable(iterator)
        self._saver = v1.train.Saver([self.saveable], name=f"{SCOPE}/save")
        self._can_be_saved: bool | None = None
        self._warned = False

    @property
    def can_be_saved(self) -> bool:
        """Whether `begin` found that the state of this pipeline can be written."""
        return bool(self._can_be_saved)

    def begin(self, session: v1.Session, checkpoint: str | None) -> None:
        """Puts the pipeline where the checkpoint left it, or warns that it begins anew.

        Args:
          session: One in which the iterator is initialised.
          checkpoint: Path of the checkpoint that the variables came from, None at a fresh start.
        """
        if self._can_be_saved is None:
            self._can_be_saved = self._try_to_write(session)
        if self._can_be_saved and checkpoint is not None:
            self._restore(session, checkpoint)

    def _write_ops(self) -> list[Operation]:
        return [spec.tensor.op for spec in self.saveable.specs]

    def _try_to_write(self, session: v1.Session) -> bool:
        try:
            session.run(self._write_ops())
        except tf.errors.OpError as error:
            self._warn(
                "The position of the input pipeline cannot be saved: a restarted run will begin "
                "its input anew. Python functions and stateful random operations in tf.data are "
                f"the usual cause. TensorFlow says: {_last_line(error)}"
            )
            return False
        return True

    def _restore(self, session: v1.Session, checkpoint: str) -> None:
        keys = {spec.name for spec in self.saveable.specs}
        saved = set(v1.train.load_checkpoint(checkpoint).get_variable_to_shape_map())
        if not keys <= saved:
            self._warn(f"{checkpoint} holds no position of the input: the input begins anew.")
            return
        try:
            self._saver.restore(session, checkpoint)
        except (tf.errors.OpError, ValueError) as error:
            session.run(self._initializer)
            self._warn(
                f"The position of the input in {checkpoint} does not fit the input pipeline, which "
                f"must have changed: the input begins anew. TensorFlow says: {_last_line(error)}"
            )

    def _warn(self, text: str) -> None:
        if not self._warned:
            log.warning(text)
            self._warned = True


def is_position_key(key: str) -> bool:
    """Whether an entry of a checkpoint is the position of an input and not a variable."""
    return key.startswith(f"{SCOPE}/") and key.endswith("_STATE")


def _last_line(error: Exception) -> str:
    """The part of TensorFlow's message that says what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("[[", "Original", "File"))]
    return telling[-1] if telling else type(error).__name__
