"""State that the workers of one optimizer share, on a parameter server.

It consists of a table (a string key → a number) and of queues of tokens that wake waiting workers.
Both exist as long as the parameter server does and need no initialization. So an entry may come
from a process that is dead; `rounds.py` and `hook.py` handle that.

Rounds are numbered from 0. A worker that waits for the end of a round takes a token and compares
the number of the open round with its own. If they are still equal it waits for another token.
Therefore extra tokens do no harm.
"""

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

WAITING_ROUND = "led"
"""Entry: the number of the round in which the chief waits for the other workers."""
CHIEF_ENDED = "ended"
"""Entry: 1 when the chief has ended for good."""
UNSEEN_DROPPED = "excused"
"""Entry: 1 when the chief no longer waits for workers that have never joined."""

JOINED = -1
"""Entry of a worker that takes part. Later: the number of its last round with a contribution."""
LEFT = -2
"""Entry of a worker that the chief does not wait for."""

_OPEN_ROUND = "ticket"
_WORKER = "worker:"


class RoundState:
    """Entries and tokens of one optimizer.

    Attributes:
      device: Device that holds them.
      entries: All keys, string Tensor [entries], and all values, int64 Tensor [entries].
      fed_key: Placeholder, string [], of `write_fed`; likewise `fed_value`, int64 [].
      write_fed: Operation that writes the fed entry.
    """

    def __init__(self, name: str, device: str):
        """Creates table and queues on a parameter server, or finds another worker's by name."""
        self.device = device
        with v1.device(device), v1.name_scope("board"):
            self._table = tf.raw_ops.MutableHashTableV2(
                key_dtype=tf.string, value_dtype=tf.int64, shared_name=f"{name}/board"
            )
            self._tokens = [
                v1.FIFOQueue(-1, tf.int64, shapes=(), shared_name=f"{name}/tokens/{parity}")
                for parity in ("even", "odd")
            ]
            found = tf.raw_ops.LookupTableExportV2(
                table_handle=self._table, Tkeys=tf.string, Tvalues=tf.int64
            )
            self.entries = (found.keys, found.values)
            self.fed_key = v1.placeholder(tf.string, [], "key")
            self.fed_value = v1.placeholder(tf.int64, [], "value")
            self.write_fed = self.write(self.fed_key, self.fed_value)

    def round_number(self) -> Tensor:
        """Returns the number of the open round, int64 []."""
        return self.read(_OPEN_ROUND, missing=0)

    def open_round(self, round_number: Tensor) -> Operation:
        """Returns the operation that opens a round and so ends the previous one."""
        return self.write(_OPEN_ROUND, round_number)

    def read(self, key: str, missing: int = -3) -> Tensor:
        """Returns the value of an entry, int64 [], or `missing` if there is none."""
        with v1.device(self.device):
            return tf.raw_ops.LookupTableFindV2(
                table_handle=self._table,
                keys=tf.constant([key]),
                default_value=tf.constant(missing, tf.int64),
            )[0]

    def write(self, key: str | Tensor, value: int | Tensor) -> Operation:
        """Returns the operation that writes an entry."""
        with v1.device(self.device):
            return tf.raw_ops.LookupTableInsertV2(
                table_handle=self._table,
                keys=tf.reshape(key, [1]),
                values=tf.reshape(tf.cast(value, tf.int64), [1]),
            )

    def expected_workers(self, num_worker: int) -> Tensor:
        """Returns the number of workers that a round waits for, int32 [], 1 to `num_worker`."""
        with v1.device(self.device):
            found = tf.raw_ops.LookupTableExportV2(
                table_handle=self._table, Tkeys=tf.string, Tvalues=tf.int64
            )
            is_worker = tf.strings.regex_full_match(found.keys, f"{_WORKER}.*")
            has_left = tf.equal(found.values, LEFT)
            left = tf.math.count_nonzero(tf.logical_and(is_worker, has_left), dtype=tf.int32)
            known = tf.math.count_nonzero(is_worker, dtype=tf.int32)
            unseen_dropped = tf.equal(self.read(UNSEEN_DROPPED), 1)
            return tf.maximum(1, tf.where(unseen_dropped, known, num_worker) - left)

    def wait(self, round_number: Tensor) -> Operation:
        """Returns the operation that waits until a round, by its number, is no longer open."""
        # The whole loop is on the state's device. Even and odd rounds have separate queues, so that
        # a fast worker cannot take the token of one that still waits for the previous round.
        with v1.device(self.device), v1.name_scope("wait"):
            queue = v1.QueueBase.from_list(tf.cast(round_number % 2, tf.int32), self._tokens)

            def take_token(taken: Tensor) -> Tensor:
                with v1.control_dependencies([queue.dequeue()]):
                    return taken + 1

            return v1.group(
                tf.while_loop(
                    lambda _: tf.equal(self.round_number(), round_number),
                    take_token,
                    [tf.zeros_like(round_number)],
                    parallel_iterations=1,
                )
            )

    def wake(self, round_number: Tensor, count: int) -> Operation:
        """Returns the operation that wakes the workers that wait for the end of a round."""
        with v1.device(self.device):
            queue = v1.QueueBase.from_list(tf.cast(round_number % 2, tf.int32), self._tokens)
            return queue.enqueue_many([tf.fill([count], round_number)])


def worker_key(device: str) -> str:
    """Returns the key of the entry of the worker with this device."""
    return f"{_WORKER}{device}"


def is_worker_key(key: str) -> bool:
    """Returns True if a key is that of a worker."""
    return key.startswith(_WORKER)
