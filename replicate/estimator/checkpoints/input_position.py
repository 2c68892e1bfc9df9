"""Position of the input pipeline: counted in each step, saved with checkpoints, and restored.

Owns the iterator of a training run, the count of its elements, and the two ways to restore a
position: load the buffers of the iterator if they are small, or read the same elements again. A
position of another pipeline is not used; a warning says so, and training continues. Evaluation and
prediction have no position. `position_file.py` owns the file.
"""

import dataclasses
import random
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.estimator.checkpoints.pipeline_record import (
    describe_difference,
    differ_in_workers,
    large_buffers,
    pipeline_ops,
    record_pipeline,
    sizes_to_feed,
    unseeded_inputs,
)
from replicate.estimator.checkpoints.position_file import (
    SavedPosition,
    read_position,
    remove_position,
    write_position,
)
from replicate.estimator.log import log

v1 = tf.compat.v1

SCOPE = "input_pipeline"
"""Name scope of the iterator."""

COUNTING_OP = f"{SCOPE}/count_element"
"""Name of the operation that counts an element, for which the elements wait."""

STATE_LIMIT = 4 << 20
"""Maximum bytes of buffers in a position."""

_SEED_BITS = 62

_FAIL = 2
"""TensorFlow's number for: fail to serialize a pipeline with state outside of it."""


class InputPosition:
    """A dataset's iterator that counts its elements and can start at a saved position.

    It belongs to a graph. Every session of that graph starts it with `begin`.

    Attributes:
      next: The next element.
    """

    def __init__(self, dataset: tf.data.Dataset, limit: int = STATE_LIMIT, is_shared: bool = False):
        """Adds the iterator of a dataset of the default graph.

        Buffers of `limit` bytes at most are saved. Without them, elements are read again.
        `is_shared` tells that the dataset is a worker's share: a position of more or fewer workers
        holds, too, as their number of batches.
        """
        ops = pipeline_ops(dataset)
        self._record = record_pipeline(dataset)
        self._unseeded = unseeded_inputs(ops)
        large = large_buffers(ops, limit)
        self._holds_state = not large
        self._slots = sizes_to_feed(large)
        self._is_shared = is_shared
        self._can_be_saved: bool | None = None
        self._seed: int | None = None
        self._skipped = 0
        self._resumed_at = 0
        self._warned = False
        self._build(dataset, limit)

    def _build(self, dataset: tf.data.Dataset, limit: int) -> None:
        self._skip = v1.placeholder_with_default(np.int64(0), [], name="skip")
        iterator = v1.data.make_initializable_iterator(dataset.skip(self._skip))
        self._initializer = iterator.initializer
        handle = iterator.initializer.inputs[1]
        element = iterator.get_next()
        taken = tf.nest.flatten(element, expand_composites=True)[0].op
        with v1.device(taken.device):  # Names the job, so that no parameter server gets the count.
            self._count = v1.Variable(
                np.int64(0), trainable=False, collections=[], use_resource=True, name="elements"
            )
            self._new_count = v1.placeholder(tf.int64, [], name="new_count")
            self._set_count = self._count.assign(self._new_count, read_value=False)
            with tf.control_dependencies([taken]):
                counted = self._count.assign_add(1, read_value=False, name="count_element")
            state = tf.raw_ops.SerializeIterator(
                resource_handle=handle, external_state_policy=_FAIL
            )
            text = tf.io.serialize_tensor(state)
            self._state_bytes = tf.strings.length(text)
            self._state = tf.where(self._state_bytes <= limit, text, "")
            self._saved_state = v1.placeholder(tf.string, [], name="saved_state")
            self._restore_state = tf.raw_ops.DeserializeIterator(
                resource_handle=handle, serialized=tf.io.parse_tensor(self._saved_state, tf.variant)
            )
        with tf.control_dependencies([counted]):
            self.next: Nest = tf.nest.map_structure(tf.identity, element, expand_composites=True)

    @property
    def has_begun(self) -> bool:
        """True after `begin` has started the input in a session."""
        return self._can_be_saved is not None

    @property
    def resumed_at(self) -> int:
        """Number of elements before the start of the present session, 0 for a new input."""
        return self._resumed_at

    @property
    def elements(self) -> Tensor:
        """Number of elements that were read since the beginning of the input, int64 []."""
        return self._count.read_value()

    def begin(self, session: v1.Session, checkpoint: str | None) -> None:
        """Starts the input at the position of the checkpoint, if there is one, of this pipeline."""
        saved = None if checkpoint is None else self._read(checkpoint)
        self._resumed_at = 0 if saved is None else saved.elements
        if saved is None:
            self._start(session, 0)
        elif not (saved.state and self._restore(session, saved)):
            self._read_again(session, saved.elements, saved.seed)

    def begin_after(self, session: v1.Session, elements: int) -> None:
        """Starts the input after a number of elements, as another process has read of its own."""
        self._resumed_at = elements
        self._read_again(session, elements, None)

    def begin_again(self, session: v1.Session) -> None:
        """Continues in a new session of this process. Variables on servers kept their values."""
        elements = int(session.run(self._count)) if self._can_be_saved else 0
        self._read_again(session, elements, self._seed)

    def save(self, session: v1.Session, checkpoint: str) -> None:
        """Writes the position between two steps, if the pipeline can be serialized."""
        if not self._can_be_saved:
            remove_position(checkpoint)
            return
        state = self._read_state(session) if self._holds_state else b""
        elements = int(session.run(self._count))
        write_position(
            checkpoint, SavedPosition(elements, self._skipped, self._seed, self._record, state)
        )

    def _start(self, session: v1.Session, skip: int, seed: int | None = None) -> None:
        """Initialises the iterator to start after `skip` elements."""
        if self._unseeded and seed is None:
            seed = random.SystemRandom().getrandbits(_SEED_BITS)
        self._seed, self._skipped = seed, skip
        feeds: dict[Any, Any] = {self._skip: skip}
        for number, pair in enumerate(self._unseeded, 1):
            feeds.update(zip(pair, (seed, number), strict=True))
        if self._slots:
            session.run(self._initializer, {**feeds, **dict.fromkeys(self._slots, 1)})
            self._try_to_serialize(session)
        session.run(self._initializer, feeds)
        if not self._slots:
            self._try_to_serialize(session)
        session.run(self._set_count, {self._new_count: skip})

    def _read_again(self, session: v1.Session, elements: int, seed: int | None) -> None:
        """Starts after a number of elements; tf.data reads and drops them first."""
        if elements:
            log.info(
                "The input continues after %d batches. They are read again first, which takes as "
                "long as the pipeline needs for them. RunConfig(save_input_position=False) "
                "avoids that.",
                elements,
            )
        self._start(session, elements, seed)

    def _restore(self, session: v1.Session, saved: SavedPosition) -> bool:
        """Starts with the saved buffers; returns True if TensorFlow accepts them."""
        self._start(session, saved.skipped, saved.seed)
        try:
            session.run(self._restore_state, {self._saved_state: saved.state})
        except (tf.errors.OpError, ValueError) as error:
            log.info("The saved buffers of the input are not used: %s", _last_line(error))
            return False
        session.run(self._set_count, {self._new_count: saved.elements})
        log.info("The input continues after %d batches, with its saved buffers.", saved.elements)
        return True

    def _read(self, checkpoint: str) -> SavedPosition | None:
        """Returns the position of a checkpoint if it is one of this pipeline."""
        try:
            saved = read_position(checkpoint)
        except ValueError as error:
            self._warn(f"{error} The input begins anew.")
            return None
        if saved is None:
            return None
        if self._is_shared and differ_in_workers(saved.record, self._record):
            return dataclasses.replace(saved, state=b"")
        difference = describe_difference(saved.record, self._record)
        if difference:
            self._warn(
                f"The input begins anew: {checkpoint} holds the position of an interrupted run on "
                f"another input pipeline. What differs: {difference}."
            )
            return None
        return saved

    def _try_to_serialize(self, session: v1.Session) -> None:
        """Tests once that the pipeline can be serialized; warns if it has state outside of it.

        The iterator must be new, and its large buffers must have one place: TensorFlow serializes
        each place of a buffer, even an empty one.
        """
        if self._can_be_saved is not None:
            return
        self._can_be_saved = True
        try:
            session.run(self._state_bytes)
        except tf.errors.OpError as error:
            self._warn(
                "The position of the input pipeline cannot be saved: a restarted run will begin "
                "its input anew. Python functions and stateful random operations in tf.data are "
                f"the usual cause. TensorFlow says: {_last_line(error)}"
            )
            self._can_be_saved = False

    def _read_state(self, session: v1.Session) -> bytes:
        """Returns the serialized iterator; if it is large, returns b"" and stops serializing."""
        try:
            size, state = session.run((self._state_bytes, self._state))
        except tf.errors.OpError as error:
            size, state = 0, b""
            log.info("The buffers of the input cannot be saved: %s", _last_line(error))
        if not state:
            log.info(
                "The buffers of the input take %.1f MB: checkpoints will hold the number of "
                "batches read instead, and a restarted run reads them again.",
                size / 1e6,
            )
            self._holds_state = False
        return bytes(state)

    def _warn(self, text: str) -> None:
        if not self._warned:
            log.warning(text)
            self._warned = True


def is_position_key(key: str) -> bool:
    """Returns True if an entry of a checkpoint is an input position of an older version."""
    return key.startswith(f"{SCOPE}/") and key.endswith("_STATE")


def _last_line(error: Exception) -> str:
    """Returns the line of TensorFlow's message that names the cause."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("[[", "Original", "File"))]
    return telling[-1] if telling else type(error).__name__
