"""Staging: sends the shards of the next batch to the towers while they compute on this one.

Owns the staging areas on the towers' devices. Each step takes the shards that the previous step
staged and stages those of the next batch. If the areas do not hold exactly one batch, as in the
first step of a session, the step fills them with its own batch. So staged shards need not be saved.
`replicate_model_fn` stages in TRAIN; `ahead.py` makes the input pipeline.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor
from replicate.batch.ahead import Ahead, Batch
from replicate.batch.split import Shard
from replicate.graph_ops.conditional import run_if, run_unless

v1 = tf.compat.v1


def staged_shards(
    batch: Batch,
    ahead: Ahead,
    split: Callable[[Batch], Sequence[Shard]],
    devices: Sequence[str],
) -> tuple[list[Shard], Operation]:
    """Returns the staged shards of a batch, and stages those of the next batch.

    Args:
      batch: Batch of this step.
      ahead: Batch of the next step, if there is one. After the last batch nothing is staged.
      split: Splits a batch into shards, one for each tower.
      devices: Devices of the towers.

    Returns:
      The shards, on the towers' devices; and an operation that must run in every training step,
      which sends the next shards. A session run without it also takes a batch.
    """
    with v1.name_scope("prefetch"):
        coming = split(ahead.batch)
        areas = [
            area
            for index, (shard, device) in enumerate(zip(coming, devices, strict=True))
            for area in _areas(index, _flat(shard), device)
        ]
        for area in areas:  # Areas on a server outlive its sessions.
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, area.clear())
        in_order = tf.reduce_all([area.is_in_order() for area in areas])
        ready = run_unless(in_order, lambda: _filled(areas, split(batch)))
        with v1.control_dependencies([ready]):
            sent = run_if(ahead.exists, lambda: _sent(areas, coming))
            taken = [area.take() for area in areas]
        # A run that needs one tower's shard must take the shards of all towers.
        with v1.control_dependencies([tensor.op for tensors in taken for tensor in tensors]):
            everything = v1.group()
        with v1.control_dependencies([everything]):
            return _received(coming, areas, taken), sent


@dataclasses.dataclass(frozen=True)
class _Area:
    """A queue on one device whose entries hold tensors of one tower's shard.

    Attributes:
      tower: Number of the tower.
      device: Device of the queue.
      name: Name of the queue, unique on its device.
      places: Positions in the flat shard of the tensors that an entry holds.
      dtypes: Data types of these tensors.
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
    """Makes the areas of one tower: on its device and, for text, on its CPU."""
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
    """Returns the operation that adds the shards to the areas."""
    return v1.group(*(area.put(_flat(shards[area.tower])) for area in areas))


def _filled(areas: Sequence[_Area], shards: Sequence[Shard]) -> Operation:
    """Returns the operation that replaces the contents of the areas by the shards."""
    with v1.control_dependencies([area.clear() for area in areas]):
        return _sent(areas, shards)


def _received(
    like: Sequence[Shard], areas: Sequence[_Area], taken: Sequence[Sequence[Tensor]]
) -> list[Shard]:
    """Packs tensors taken from the areas into shards. Other values are those in `like`."""
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
