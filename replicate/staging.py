"""Staging: the shards of the next batch, sent to the towers while they compute on this one.

Owns the staging areas on the towers' devices. A step takes out of them what the step before it put
in, and puts in the shards of the batch after its own. What is staged is never the only copy: where
areas are not in order, as in the first step of a session, they are filled with the batch of the
step itself, so that nothing staged has to be saved. Called by `replicate_model_fn` in TRAIN;
`batch_ahead.py` makes the input pipeline.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.batch_ahead import Ahead, Batch
from replicate.conditional import run_if, run_unless
from replicate.split import Shard

v1 = tf.compat.v1


def staged_shards(
    batch: Batch,
    ahead: Ahead,
    split: Callable[[Batch], Sequence[Shard]],
    devices: Sequence[str],
) -> tuple[list[Shard], Operation]:
    """Returns the shards of a batch as they were staged, and stages those of the next one.

    Args:
      batch: What the step trains on.
      ahead: What the next step trains on, if there is one. At the end nothing is staged: a step
        that finds nothing needs a batch of its own, and none is left.
      split: Makes the shards of a batch, one for each tower.
      devices: The towers' devices.

    Returns:
      The shards, on the towers' devices; and an operation that must run in every training step,
      which sends the next ones. A run of the session without it takes its batch like any other.
    """
    with v1.name_scope("prefetch"):
        coming = split(ahead.batch)
        areas = [
            area
            for index, (shard, device) in enumerate(zip(coming, devices, strict=True))
            for area in _areas(index, _flat(shard), device)
        ]
        for area in areas:  # Those of a server outlive the sessions on it.
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, area.clear())
        in_order = tf.reduce_all([area.is_in_order() for area in areas])
        ready = run_unless(in_order, lambda: _filled(areas, split(batch)))
        with v1.control_dependencies([ready]):
            sent = run_if(ahead.exists, lambda: _sent(areas, coming))
            taken = [area.take() for area in areas]
        # All or none: a run that needs one tower's shard must not leave the others' behind.
        with v1.control_dependencies([tensor.op for tensors in taken for tensor in tensors]):
            everything = v1.group()
        with v1.control_dependencies([everything]):
            return _received(coming, areas, taken), sent


@dataclasses.dataclass(frozen=True)
class _Area:
    """A queue of entries on one device, which hold the tensors of one tower's shard, or some.

    Attributes:
      tower: Number of the tower.
      device: Where the queue is.
      name: Its name, unique there.
      places: Which of the flat parts of a shard an entry holds.
      dtypes: Their types.
    """

    tower: int
    device: str
    name: str
    places: tuple[int, ...]
    dtypes: tuple[tf.DType, ...]

    def put(self, parts: Sequence[Any]) -> Operation:
        return self._run(tf.raw_ops.Stage, values=[parts[place] for place in self.places])

    def take(self) -> list[Tensor]:
        return list(self._run(tf.raw_ops.Unstage, dtypes=self.dtypes))

    def clear(self) -> Operation:
        return self._run(tf.raw_ops.StageClear, dtypes=self.dtypes)

    def is_in_order(self) -> Tensor:
        return tf.equal(self._run(tf.raw_ops.StageSize, dtypes=self.dtypes), 1)

    def _run(self, operation: Callable[..., Any], **arguments: Any) -> Any:
        with v1.device(self.device):
            return operation(shared_name=self.name, **arguments)


def _areas(tower: int, parts: Sequence[Any], device: str) -> list[_Area]:
    """The areas of one tower: on its device and, for text, which only CPUs hold, on its CPU."""
    name = v1.get_default_graph().unique_name(f"tower_{tower}")
    cpu = tf.DeviceSpec.from_string(device).replace(device_type="CPU", device_index=0).to_string()
    places: dict[str, list[int]] = {}
    for place, part in enumerate(parts):
        if isinstance(part, tf.Tensor):
            on_cpu = part.dtype == tf.string and "CPU" not in device
            places.setdefault(cpu if on_cpu else device, []).append(place)
    return [
        _Area(tower, where, f"{name}/{index}", tuple(held), tuple(parts[n].dtype for n in held))
        for index, (where, held) in enumerate(places.items())
    ]


def _sent(areas: Sequence[_Area], shards: Sequence[Shard]) -> Operation:
    """Returns the operation that adds the shards to what the areas hold."""
    return v1.group(*(area.put(_flat(shards[area.tower])) for area in areas))


def _filled(areas: Sequence[_Area], shards: Sequence[Shard]) -> Operation:
    """Returns the operation after which each area holds its part of the shards, and no more."""
    with v1.control_dependencies([area.clear() for area in areas]):
        return _sent(areas, shards)


def _received(
    like: Sequence[Shard], areas: Sequence[_Area], taken: Sequence[Sequence[Tensor]]
) -> list[Shard]:
    """Packs what was taken into shards; what is no tensor in `like` stays as it is there."""
    parts = [_flat(shard) for shard in like]
    for area, tensors in zip(areas, taken, strict=True):
        with v1.device(area.device):
            for place, tensor in zip(area.places, tensors, strict=True):
                received = tf.identity(tensor)
                received.set_shape(parts[area.tower][place].shape)
                parts[area.tower][place] = received
    return [
        tf.nest.pack_sequence_as(shard, part, expand_composites=True)
        for shard, part in zip(like, parts, strict=True)
    ]


def _flat(shard: Shard) -> list[Any]:
    return list(tf.nest.flatten(shard, expand_composites=True))
