"""Board: short notes that the workers of a cluster leave on the server of their chief.

Owns a table of strings on the chief's server. Training without parameter servers has no other place
that all workers can reach before their collectives run. Every note and every look is a brief
session with a time limit, so that a lost chief does not hang its workers.
"""

import hashlib
import json
from typing import final

import tensorflow as tf

from replicate.estimator.cluster.brief_session import run_briefly
from replicate.estimator.run_config import RunConfig
from replicate.roles import CHIEFS

v1 = tf.compat.v1

ENDED = "ended"
"""Name of the note that the chief leaves after its last step, behind the number of its call."""

LOOK_SECS = 3.0
"""Seconds that it has when another worker is lost already."""

ANSWER_SECS = 10.0
"""Seconds that the chief's server has for an answer."""


@final
class Board:
    """Notes by their keys, as one worker sees them."""

    def __init__(self, config: RunConfig):
        self._config = config
        job = next(job for job in CHIEFS if job in config.cluster.jobs)
        self._device = f"/job:{job}/task:0"

    def exchange(
        self,
        key: str = "",
        note: str = "",
        limit_secs: float = ANSWER_SECS,
        is_only: bool = False,
    ) -> dict[str, str]:
        """Leaves a note, unless the key is empty, and returns all notes.

        The only note replaces all others. Connecting, running and closing may take `limit_secs`
        each.

        Raises:
          OpError: The chief's server cannot be reached in time.
        """
        config = self._config
        with tf.Graph().as_default(), v1.device(f"{self._device}/device:CPU:0"):
            table = tf.raw_ops.MutableHashTableV2(
                key_dtype=tf.int64, value_dtype=tf.string, shared_name="worker_board"
            )
            leave = tf.raw_ops.LookupTableImportV2 if is_only else tf.raw_ops.LookupTableInsertV2
            keys = tf.constant([_number(key)], tf.int64)
            left = [leave(table_handle=table, keys=keys, values=[json.dumps([key, note])])]
            with v1.control_dependencies(left if key else []):
                found = tf.raw_ops.LookupTableExportV2(
                    table_handle=table, Tkeys=tf.int64, Tvalues=tf.string
                )
            notes = run_briefly(found.values, config.master, config, self._device, limit_secs)
        return dict(json.loads(each) for each in notes)


def has_ended(config: RunConfig) -> bool:
    """Returns True if the chief has said that it has saved the last step of its newest call."""
    try:
        keys = Board(config).exchange(limit_secs=LOOK_SECS)
    except tf.errors.OpError:
        return False
    newest = max((int(key.partition("/")[0]) for key in keys if key[0].isdecimal()), default=0)
    return f"{newest}/{ENDED}" in keys


def _number(key: str) -> int:
    """Returns a number for a key: TensorFlow has no table from strings to strings."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
