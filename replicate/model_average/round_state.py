"""The board: what the workers of one optimizer tell each other, on a parameter server.

Owns a table of notes (a worker's name or a word → a number) and the queues of tokens by which
waiting workers are woken. Both exist as long as the parameter server does, whichever worker comes
and goes, and need no initialization. So whatever is read here may have been left by a process that
is dead: `rounds.py` and `hook.py` say what is made of it.

A round has a number, its ticket. Those who wait for the end of a round take a token, look at the
ticket, and wait for another token if it is still that of the round: a token too many does no harm.
"""

import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

LED = "led"
"""Note: the ticket of the round whose other workers the chief waits for."""
ENDED = "ended"
"""Note: 1 when the chief has left for good."""
EXCUSED = "excused"
"""Note: 1 when the chief has given up to wait for workers that it has never heard of."""

JOINED = -1
"""Note under a worker's name: it takes part. Later: the ticket of its last contribution."""
LEFT = -2
"""Note under a worker's name: nobody waits for it."""

_TICKET = "ticket"
_WORKER = "worker:"


class Board:
    """The notes and tokens of one optimizer.

    Attributes:
      device: Where they are.
      notes: All notes: keys, string Tensor [notes], and values, int64 Tensor [notes].
      fed_key: Placeholder, string [], of `write_fed`; likewise `fed_value`, int64 [].
      write_fed: Operation that writes a note.
    """

    def __init__(self, name: str, device: str):
        """Finds or makes them.

        Args:
          name: Of the optimizer, equal in all workers.
          device: Of a parameter server.
        """
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
            self.notes = (found.keys, found.values)
            self.fed_key = v1.placeholder(tf.string, [], "key")
            self.fed_value = v1.placeholder(tf.int64, [], "value")
            self.write_fed = self.write(self.fed_key, self.fed_value)

    def ticket(self) -> Tensor:
        """Returns the ticket of the round that is open, int64 []; the first one is 0."""
        return self.read(_TICKET, missing=0)

    def open(self, ticket: Tensor) -> Operation:
        """Returns the operation that opens a round, and so ends the one before."""
        return self.write(_TICKET, ticket)

    def read(self, key: str, missing: int = -3) -> Tensor:
        """Returns a note, int64 [], or another number where there is none."""
        with v1.device(self.device):
            return tf.raw_ops.LookupTableFindV2(
                table_handle=self._table,
                keys=tf.constant([key]),
                default_value=tf.constant(missing, tf.int64),
            )[0]

    def write(self, key: str | Tensor, value: int | Tensor) -> Operation:
        """Returns the operation that writes a note."""
        with v1.device(self.device):
            return tf.raw_ops.LookupTableInsertV2(
                table_handle=self._table,
                keys=tf.reshape(key, [1]),
                values=tf.reshape(tf.cast(value, tf.int64), [1]),
            )

    def expected(self, num_worker: int) -> Tensor:
        """Returns how many workers a round waits for, int32 [], at least 1.

        Args:
          num_worker: How many there are if none has left.
        """
        with v1.device(self.device):
            found = tf.raw_ops.LookupTableExportV2(
                table_handle=self._table, Tkeys=tf.string, Tvalues=tf.int64
            )
            is_worker = tf.strings.regex_full_match(found.keys, f"{_WORKER}.*")
            has_left = tf.equal(found.values, LEFT)
            left = tf.math.count_nonzero(tf.logical_and(is_worker, has_left), dtype=tf.int32)
            known = tf.math.count_nonzero(is_worker, dtype=tf.int32)
            is_excused = tf.equal(self.read(EXCUSED), 1)
            return tf.maximum(1, tf.where(is_excused, known, num_worker) - left)

    def wait(self, ticket: Tensor) -> Operation:
        """Returns the operation that waits until a round is no longer open.

        Args:
          ticket: Of the round, int64 [].
        """
        # The loop is on the board's device as a whole. Neighbouring rounds have queues of their
        # own: who is quick cannot take the token of one who still waits for the round before.
        with v1.device(self.device), v1.name_scope("wait"):
            queue = v1.QueueBase.from_list(tf.cast(ticket % 2, tf.int32), self._tokens)

            def take_token(taken: Tensor) -> Tensor:
                with v1.control_dependencies([queue.dequeue()]):
                    return taken + 1

            return v1.group(
                tf.while_loop(
                    lambda _: tf.equal(self.ticket(), ticket),
                    take_token,
                    [tf.zeros_like(ticket)],
                    parallel_iterations=1,
                )
            )

    def wake(self, ticket: Tensor, count: int) -> Operation:
        """Returns the operation that wakes those who wait for the end of a round.

        Args:
          ticket: Of the round, int64 [].
          count: How many may wait, at most.
        """
        with v1.device(self.device):
            queue = v1.QueueBase.from_list(tf.cast(ticket % 2, tf.int32), self._tokens)
            return queue.enqueue_many([tf.fill([count], ticket)])


def worker_key(device: str) -> str:
    """Returns the key of the notes about the worker with this device."""
    return f"{_WORKER}{device}"


def is_worker_key(key: str) -> bool:
    """Returns whether a key is that of a worker."""
    return key.startswith(_WORKER)
