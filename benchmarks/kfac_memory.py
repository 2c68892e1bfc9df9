"""Memory that K-FAC keeps on each GPU, by number of towers, found without a GPU.

The graph of a training step is built for each number of towers; nothing runs. The first table has
a row for each device: megabytes of averages, inverses and velocities, the share of the work of all
inverses, and what the device receives. The second tells which factors need the memory.

Averages, inverses and velocities are variables: they stay between steps. Packed sums live for a
part of a step: each tower packs its sum of a second moment into a triangle, and sends it to the
device of the average. They count as if all sums of a step were there at the same time.

    python -m benchmarks.kfac_memory --towers=4 --json=runs/kfac_memory.json
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import flags

from benchmarks import harness

if TYPE_CHECKING:
    from benchmarks.device_traffic.traffic import Crossing

TITLES = (
    "towers",
    "device",
    "averages, MB",
    "inverses, MB",
    "together, MB",
    "work of inverses",
    "packed sums received, MB",
    "with these, MB",
    "averages fetched, MB",
    "velocities, MB",
)
SHOWN = 8
"""Number of sizes of factors in the second table."""

FLAGS = flags.FLAGS


class Factor(NamedTuple):
    """Memory of one factor, and where it is.

    Attributes:
      name: Path of its variables below `kfac/`.
      rows: Rows of the matrix.
      average: Device of its average.
      inverse: Device of its inverses; that of its average if it keeps none.
      average_bytes: Bytes of its average.
      inverse_bytes: Bytes of its inverses.
      cost: Cost of its inverses, in multiplications.
    """

    name: str
    rows: int
    average: str
    inverse: str
    average_bytes: int
    inverse_bytes: int
    cost: float

    @property
    def kept(self) -> int:
        """Bytes of its average and its inverses."""
        return self.average_bytes + self.inverse_bytes


class Memory(NamedTuple):
    """Memory of K-FAC in a training step.

    Attributes:
      factors: All factors.
      sums: Packed sums that cross between GPUs.
      velocities: Bytes of the optimizer's velocities, by device.
    """

    factors: list[Factor]
    sums: list[Crossing]
    velocities: Mapping[str, int]


def find(towers: int) -> Memory:
    """Builds a training step with K-FAC on towers: statistics in each step, then inverses."""
    import tensorflow as tf  # noqa: PLC0415

    import kfac  # noqa: PLC0415
    from benchmarks.device_traffic import steps, traffic  # noqa: PLC0415
    from benchmarks.tower_step.tower_models import mean_cross_entropy  # noqa: PLC0415
    from examples.slim.networks import factory  # noqa: PLC0415

    v1 = tf.compat.v1
    made: list[Any] = []

    def make_optimizer() -> Any:
        layers = kfac.graph_layer_collection()
        settings = {"learning_rate": 0.01, "damping": 0.03, "momentum_type": "regular"}
        made.append(
            kfac.PeriodicInvCovUpdateKfacOpt(layer_collection=layers, invert_every=10, **settings)
        )
        return made[-1]

    def model(images: Any, labels: Any) -> Any:
        network = factory.get_network_fn(FLAGS.network, FLAGS.classes, is_training=True)
        logits, _ = network(images)
        layers = kfac.graph_layer_collection()
        layers.set_default_scale_and_shift_approximation(FLAGS.scale_and_shift)
        layers.register_categorical_predictive_distribution(logits, name="logits")
        layers.auto_register_layers()
        return mean_cross_entropy(logits, labels)

    with steps.gpu_graph(towers) as graph:
        rows, side = FLAGS.batch_per_tower * towers, FLAGS.image_size
        with v1.device("/cpu:0"):
            images = v1.placeholder(tf.float32, [rows, side, side, 3], "images")
            labels = v1.placeholder(tf.int32, [rows], "labels")
        step = steps.Step(optimizer=make_optimizer, model=model)
        fetches = steps.replicated_fetches(step, towers, (images, labels))
        crossings = traffic.measure(graph.get_operations(), fetches).crossings
        (optimizer, *_) = reversed(made)
        variables = v1.trainable_variables()
        slots = [optimizer.get_slot(v, n) for n in optimizer.get_slot_names() for v in variables]
        return Memory(
            factors=[_measured(factor) for factor in optimizer.factors],
            sums=[e for e in crossings if e.route == "GPU>GPU" and "/update_averages/" in e.name],
            velocities=_bytes_by_device(slots),
        )


def _measured(factor: Any) -> Factor:
    average = _bytes_by_device(factor.cov_variables[:1])
    inverses = _bytes_by_device(slot.variables[0] for slot in factor.inverses)
    (at,) = average
    return Factor(
        name=factor.name,
        rows=factor.dimension,
        average=at,
        inverse=next(iter(inverses), at),
        average_bytes=average[at],
        inverse_bytes=sum(inverses.values()),
        cost=factor.inverse_cost if inverses else 0.0,
    )


def _bytes_by_device(variables: Iterable[Any]) -> dict[str, int]:
    from benchmarks.device_traffic.placement import requested_device  # noqa: PLC0415

    found: dict[str, int] = {}
    for variable in variables:
        device = requested_device(variable.op) or "GPU:0"
        size = variable.shape.num_elements() * variable.dtype.base_dtype.size
        found[device] = found.get(device, 0) + size
    return found


def device_lines(towers: int, memory: Memory) -> Iterator[str]:
    """Yields a line of a Markdown table for each device."""
    factors, sums, velocities = memory
    work = sum(each.cost for each in factors)
    names = {*velocities, *(e.average for e in factors), *(e.inverse for e in factors)}
    for name in sorted(names):
        averages = sum(each.average_bytes for each in factors if each.average == name)
        inverses = sum(each.inverse_bytes for each in factors if each.inverse == name)
        cost = sum(each.cost for each in factors if each.inverse == name)
        received = sum(each.bytes or 0 for each in sums if each.target == name)
        fetched = sum(e.average_bytes for e in factors if e.inverse == name != e.average)
        kept = averages + inverses
        sizes = map(_mb, (averages, inverses, kept))
        moved = map(_mb, (received, kept + received, fetched, velocities.get(name, 0)))
        share = cost / work if work else 0.0
        yield harness.markdown_row([towers, name, *sizes, f"{share:.0%}", *moved])


def factor_lines(factors: Sequence[Factor], shown: int = SHOWN) -> Iterator[str]:
    """Yields the lines of a Markdown table of the factors that need most memory, by rows.

    The last of the rows that are shown has all others.
    """
    groups: dict[object, list[Factor]] = {}
    for factor in factors:
        groups.setdefault(factor.rows, []).append(factor)
    ranked = sorted(groups, key=lambda rows: -_kept(groups[rows]))
    if rest := [factor for rows in ranked[shown:] for factor in groups[rows]]:
        groups["others"] = rest
        ranked[shown:] = ["others"]
    kept, work = _kept(factors), sum(each.cost for each in factors)
    for rows in ranked:
        group = groups[rows]
        share = sum(each.cost for each in group) / work if work else 0.0
        size = _kept(group)
        cells = (rows, len(group), _mb(size), f"{size / kept:.0%}", f"{share:.0%}", group[0].name)
        yield harness.markdown_row(cells)


def _kept(factors: Iterable[Factor]) -> int:
    return sum(each.kept for each in factors)


def _head(*titles: str) -> str:
    return f"{harness.markdown_row(titles)}\n|{'---|' * len(titles)}"


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f}"


def main(_: Sequence[str]) -> None:
    """Builds the steps, then prints and saves their memory."""
    found = {}
    print(_head(*TITLES))
    for towers in FLAGS.towers:
        found[towers] = find(towers)
        print("\n".join(device_lines(towers, found[towers])), flush=True)
    print("\n" + _head("rows", "factors", "averages and inverses, MB", "of all", "work", "such as"))
    print("\n".join(factor_lines(found[towers].factors)))
    harness.save(
        {
            towers: {
                "factors": [each._asdict() for each in memory.factors],
                "sums": [each._asdict() for each in memory.sums],
                "velocities": memory.velocities,
            }
            for towers, memory in found.items()
        }
    )


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_integer(
        "towers", [1, 2, 4, 8], "Number of towers; may be repeated.", lower_bound=1
    )
    flags.DEFINE_string("network", "resnet_v1_50", "Network of examples/slim.")
    flags.DEFINE_integer("image_size", 224, "Height and width of images.", lower_bound=1)
    flags.DEFINE_integer("classes", 1000, "Number of classes.", lower_bound=2)
    flags.DEFINE_integer("batch_per_tower", 32, "Images of each tower.", lower_bound=1)
    flags.DEFINE_enum(
        "scale_and_shift", "full", ["full", "diagonal"], "Approximation of batch normalization's."
    )
    harness.define_flags()


if __name__ == "__main__":
    define_flags()
    harness.run(main)
