"""Time from an empty graph to the end of the first step: K-FAC, momentum SGD and tensorflow/kfac.

With control flow v2 a process only disables eager execution. The packages of this project are
compiled to bytecode first, as those of an installed wheel are.

    python -m benchmarks.start --network=resnet20 --rival=tensorflow-kfac --repeats=3
"""

import compileall
import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from absl import flags

from benchmarks import harness, rivals
from benchmarks.kfac_step import NETWORKS, OPTIMIZERS
from examples.lazy_module import LazyModule

start_programs = LazyModule("benchmarks.start.start_programs")
tf = LazyModule("tensorflow")

CONTROL_FLOWS = ("v1", "v2")
PACKAGES = ("kfac", "model_deploy", "replicate", "benchmarks")
OURS = "this project"
PARTS = ("build", "initialize", "first step")
SPREAD = ("spread_inverses", "spread_first_inverses")
"""Settings of K-FAC that the flags of these names give."""
RIVAL_NETWORKS = ("resnet20", "resnet56")
"""Networks that the rival's program builds."""

Record: TypeAlias = Mapping[str, float]
"""What `start_programs.measure` returns."""

FLAGS = flags.FLAGS


class Case(NamedTuple):
    """A program whose start is measured, with the control flow "v1" or "v2"."""

    network: str
    control_flow: str
    optimizer: str
    towers: int
    maker: str = OURS

    @property
    def label(self) -> str:
        """Text of the case in the table."""
        towers = f", {self.towers} towers" if self.towers > 1 else ""
        return f"{self.network} {self.control_flow} {self.optimizer}{towers}, {self.maker}"


def cases() -> list[Case]:
    """Returns the chosen cases; those of rivals stand before ours that they are compared with."""
    found = []
    for network, control_flow in itertools.product(FLAGS.network, FLAGS.control_flow):
        if network in RIVAL_NETWORKS:
            found += [Case(network, control_flow, "K-FAC", 1, rival) for rival in FLAGS.rival]
        found += [
            Case(network, control_flow, optimizer, towers)
            for optimizer, towers in itertools.product(FLAGS.optimizer, FLAGS.towers)
        ]
    return found


def measure_here(case: Case) -> Record:
    """Measures a case of ours in this process."""
    devices = harness.divide_cpu(case.towers)
    if case.control_flow == "v1":
        tf.compat.v1.disable_v2_behavior()
    else:
        tf.compat.v1.disable_eager_execution()
    # tensorflow/kfac has none of these settings.
    spread = {name: True for name in SPREAD if FLAGS[name].value}
    given = case.network, case.optimizer, devices, FLAGS.curvature_share
    return start_programs.measure(lambda: start_programs.build(*given, **spread))


def measure_elsewhere(case: Case) -> Record:
    """Measures a case in a process of its own."""
    options = [f"--{name}={value}" for name, value in case._asdict().items() if name != "maker"]
    if case.maker == OURS:
        options += harness.given_flags(*SPREAD, "curvature_share")
    rival = "" if case.maker == OURS else case.maker
    command = rivals.command_of(rival, "start", "--here", *options)
    found: Record = harness.read_json(command, f"start {case.label}")
    return found


def seconds(records: Sequence[Record]) -> list[float]:
    """Returns the seconds from the empty graph to the end of the first step, of each repeat."""
    return [sum(each[part] for part in PARTS) for each in records]


def processor_seconds(records: Sequence[Record]) -> list[float]:
    """Returns the seconds that a start took of all cores, of each repeat."""
    return [each["processor"] for each in records]


def lines(found: Mapping[Case, Sequence[Record]]) -> Iterator[str]:
    """Yields the lines of a table; ratios compare with K-FAC of the rival, in the same turn."""
    costs = {"total, s": seconds, "processor, s": processor_seconds}
    counts = ("operations", "in functions", "build MB")
    rows = []
    for case, records in found.items():
        middle = {part: statistics.median(each[part] for each in records) for part in records[0]}
        row = [case.label, *(f"{middle[part]:.1f}" for part in PARTS)]
        for cost in costs.values():
            row += [harness.spread(cost(records), 1), _ratio(case, cost, found)]
        rows.append([*row, *(f"{middle[count]:,.0f}" for count in counts)])
    paired = (head for name in costs for head in (name, "ratio"))
    yield from harness.table(("case", *PARTS, *paired, *counts), rows)


def _ratio(
    case: Case,
    cost: Callable[[Sequence[Record]], list[float]],
    found: Mapping[Case, Sequence[Record]],
) -> str:
    rivals = [
        other
        for other in found
        if other.maker != OURS and other._replace(maker=OURS) == case._replace(towers=1)
    ]
    if case in rivals or not rivals:
        return ""
    return harness.spread(harness.ratios(cost(found[case]), cost(found[rivals[0]])), 2)


def main(_: Sequence[str]) -> None:
    """Measures one case in this process with --here; else all of them, and saves the results."""
    if FLAGS.here:
        case = Case(FLAGS.network[0], FLAGS.control_flow[0], FLAGS.optimizer[0], FLAGS.towers[0])
        print(json.dumps(measure_here(case)))
        return
    for package in PACKAGES:
        compileall.compile_dir(harness.ROOT / package, quiet=1)
    found: dict[Case, list[Record]] = {case: [] for case in cases()}
    for _ in range(FLAGS.repeats):
        for case, records in found.items():
            records.append(measure_elsewhere(case))
    print("\n".join(lines(found)))
    harness.save([{**case._asdict(), "records": records} for case, records in found.items()])


def define_flags() -> None:
    """Defines the flags. Not done on import, since other benchmarks use the same names."""
    flags.DEFINE_multi_enum("network", list(RIVAL_NETWORKS), NETWORKS, "Network; may be repeated.")
    flags.DEFINE_multi_enum(
        "control_flow", list(CONTROL_FLOWS), CONTROL_FLOWS, "Control flow; may be repeated."
    )
    flags.DEFINE_multi_enum("optimizer", list(OPTIMIZERS), OPTIMIZERS, "May be repeated.")
    flags.DEFINE_multi_integer("towers", [1, 4], "Towers; may be repeated.", lower_bound=1)
    flags.DEFINE_bool("spread_inverses", False, "Compute later inverses in shares.")
    flags.DEFINE_bool("spread_first_inverses", False, "Compute the first inverses so, too.")
    flags.DEFINE_float(
        "curvature_share", 1.0, "Share of the examples in K-FAC's averages, above 0.", 0.001, 1.0
    )
    flags.DEFINE_integer("repeats", 3, "Starts of each case.", lower_bound=1)
    rivals.define_flags()
    harness.define_flags(here=True)


if __name__ == "__main__":
    define_flags()
    harness.run(main)
