"""Beams of a batch: tiled batches, and the sequences that a beam search found."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeats each entry of a batch.

    Args:
      t: A nest of tensors [batch, …].
      multiplier: How often each entry is repeated, in place.
      name: Name of the operations.

    Returns:
      A nest of tensors [batch·multiplier, …].

    Raises:
      ValueError: A tensor has no batch dimension.
    """
    with v1.name_scope(name, "tile_batch", [*tf.nest.flatten(t), multiplier]):
        return tf.nest.map_structure(lambda each: _tiled(each, multiplier), t)


def _tiled(t: Tensor, multiplier: int) -> Tensor:
    t = tf.convert_to_tensor(t)
    if t.shape.rank is None or not t.shape.rank:
        raise ValueError(f"tile_batch takes tensors [batch, …], got {t}.")
    tiled = tf.repeat(t, multiplier, axis=0)
    batch, *rest = t.shape.as_list()
    times = tf.get_static_value(multiplier)
    known = batch * int(times) if batch is not None and times is not None else None
    tiled.set_shape([known, *rest])
    return tiled


def gather_tree(
    step_ids: Tensor, parent_ids: Tensor, max_sequence_lengths: Tensor, end_token: Tensor
) -> Tensor:
    """Follows each beam back from its end.

    Args:
      step_ids: Id that each beam took at each time, [time, batch, beam].
      parent_ids: Beam that each came from, [time, batch, beam].
      max_sequence_lengths: Longest sequence of the beams, [batch].
      end_token: Id after the end of a sequence.

    Returns:
      Ids of the sequences, [time, batch, beam].
    """
    step_ids, parent_ids = tf.convert_to_tensor(step_ids), tf.convert_to_tensor(parent_ids)
    end = tf.fill(tf.shape(step_ids)[1:], tf.cast(end_token, step_ids.dtype))
    own = tf.zeros_like(parent_ids[0]) + tf.range(tf.shape(parent_ids)[2])
    times = tf.range(tf.shape(step_ids)[0])
    lengths = tf.cast(tf.expand_dims(max_sequence_lengths, 1), times.dtype)

    def step(state: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor, Tensor]) -> Any:
        _, beams = state
        ids, parents, time = now
        inside = tf.logical_and(time < lengths, tf.ones_like(beams, tf.bool))
        taken = tf.where(inside, tf.gather(ids, beams, batch_dims=1), end)
        return taken, tf.where(inside, tf.gather(parents, beams, batch_dims=1), beams)

    ids, _ = tf.scan(step, (step_ids, parent_ids, times), (end, own), reverse=True)
    ends = tf.cast(tf.equal(ids, end), tf.int32)
    return tf.where(tf.cumsum(ends, exclusive=True) > 0, end + tf.zeros_like(ids), ids)


def gather_tree_from_array(t: Tensor, parent_ids: Tensor, sequence_length: Tensor) -> Tensor:
    """Puts values of each time into the order of the beams at the end.

    Args:
      t: [time, batch·beam, …] or [time, batch, beam, …].
      parent_ids: Beam that each came from, [time, batch, beam].
      sequence_length: Lengths, [batch, beam].

    Returns:
      A tensor of the shape of `t`.
    """
    shape = tf.shape(parent_ids)
    own = tf.zeros_like(parent_ids) + tf.range(shape[2])
    longest = tf.reduce_max(sequence_length, axis=1)
    beams = gather_tree(own, parent_ids, longest, shape[2] + 1)
    inside = tf.transpose(tf.sequence_mask(sequence_length, shape[0]), [2, 0, 1])
    values = tf.reshape(t, tf.concat([shape, [-1]], 0))
    ordered = tf.gather(values, tf.where(inside, beams, own), batch_dims=2)
    result = tf.reshape(ordered, tf.shape(t))
    result.set_shape(t.shape)
    return result
