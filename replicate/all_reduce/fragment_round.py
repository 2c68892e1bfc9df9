"""FragmentRound: the operations of the rounds of some variables, in the graph of one worker.

With a delay, a round is made of three runs of a session. The first keeps what this worker gives:
its share of the changes of its weights, and of averages. The second, beside local steps, replaces
that by the sums over all workers. The third makes the outer step, and mixes its result with the
weights, which have moved meanwhile. Without a delay, one run does all and keeps nothing.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Operation, Tensor, Variable
from replicate.all_reduce.compression import Code, compressed_sum
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.packs import packs_of, sent_in_packs, shaped_as
from replicate.all_reduce.round_variables import RoundVariables
from replicate.graph_ops.own_variables import assign_copy
from replicate.outer_step import OuterStep, nesterov
from replicate.protocols import AveragedInRounds, RoundAverage

v1 = tf.compat.v1

TOGETHER = -2
"""Mark of a fragment whose weights are its centers, alike on all workers."""
TAKEN = -1
"""Mark after a round whose sums were taken. In between, the mark is the step of the round."""


class Members(NamedTuple):
    """Variables of a fragment.

    Attributes:
      weights: Weights, which the outer step moves.
      averages: Floating-point variables that become their means over the workers, and how they are
        packed.
      counters: Others, which become those of the chief.
      copies: Copies that change with a variable, by its reference.
      states: What is computed anew after a round of this fragment.
    """

    weights: list[Variable]
    averages: list[RoundAverage]
    counters: list[Variable]
    copies: Mapping[Any, Sequence[Variable]]
    states: list[AveragedInRounds]

    @property
    def all(self) -> list[Variable]:
        """The variables without copies."""
        return [*self.weights, *(each for each, _, _ in self.averages), *self.counters]


@final
class FragmentRound:
    """Rounds of one fragment.

    Attributes:
      rows: Rows of this worker since the last round, int64 [].
      mark: `TOGETHER`, `TAKEN`, or the step of the round whose sums are to be taken, int64 [].
      begin: Operation that makes the weights the centers, from which changes are measured.
      runs: The operation of each run of a round.
      share: Placeholder of this worker's share of the means, float64 [].
      mark_after: Placeholder of the mark after a run, int64 [].
      mixing: Placeholder of the part of a local value in what becomes of it, float64 [].
      bytes_sent: Bytes that a worker sends in a round.
      shared: Variables that are equal on all workers after each of their rounds.
    """

    def __init__(
        self,
        members: Members,
        group: WorkerGroup,
        rows: Variable,
        kept: RoundVariables,
        rests: RoundVariables,
        label: str,
    ):
        """Adds the operations to the graph.

        Args:
          members: The variables.
          group: The workers.
          rows: As the attribute.
          kept: Maker of variables.
          rests: Maker of those with what is cut off from the values that this worker sends.
          label: End of the names of the fragment's own variables.

        Raises:
          ValueError: The shape of a variable is not known.
          TypeError: The outer optimizer is of another kind.
        """
        settings = group.settings
        self._members, self._group, self._kept, self._rests = members, group, kept, rests
        self._outer = OuterStep("AllReduce", settings.outer_optimizer or nesterov)
        self._centers = [self._center(weight) for weight in members.weights]
        self.rows = rows
        self.mark = kept.counter(f"outer/mark{label}", TOGETHER)
        self.begin = v1.group(*map(assign_copy, self._centers, members.weights))
        with v1.device(CPU):
            self.share = v1.placeholder(tf.float64, [], "share")
            self.mark_after = v1.placeholder(tf.int64, [], "mark")
            mixing = tf.constant(settings.mixing, tf.float64)
            self.mixing = v1.placeholder_with_default(mixing, [], "mixing")
        sent_before = group.bytes_sent
        self.runs = self._runs(settings.delay > 0)
        self.bytes_sent = group.bytes_sent - sent_before
        # Without saves inside of a round, the centers are gone when the weights are loaded.
        alike = self._centers if kept.is_cut else members.all
        self.shared = [*alike, *self._outer.variables]

    def _runs(self, has_delay: bool) -> list[Operation]:
        """Returns the operation of each run."""
        given = self._given()
        if not has_delay:
            return [self._marked(self._taken(self._sums(given), is_mixed=False), is_first=True)]
        variables = self._members.all
        kept = [self._like(*pair) for pair in zip(variables, given, strict=True)]
        keeping = [v1.assign(*pair).op for pair in zip(kept, given, strict=True)]
        sums = self._sums([each.read_value() for each in kept])
        exchanging = [v1.assign(*pair).op for pair in zip(kept, sums, strict=True)]
        taken = self._taken([each.read_value() for each in kept], is_mixed=True)
        return [self._marked(keeping, is_first=True), v1.group(*exchanging), self._marked(taken)]

    def _marked(self, done: Sequence[Operation], is_first: bool = False) -> Operation:
        with v1.control_dependencies(done), v1.device(CPU):
            counted = [self.rows.assign(0, read_value=False)] if is_first else []
            return v1.group(self.mark.assign(self.mark_after, read_value=False), *counted)

    def _given(self) -> list[Tensor]:
        """Returns what this worker gives for each variable: its parts of means, and counters."""
        members = self._members
        changes = [_difference(*pair) for pair in zip(self._centers, members.weights, strict=True)]
        if self._group.settings.bits != 32:
            changes = [tf.cast(change, tf.float32) for change in changes]
        values = [_on(each, packed, each.read_value()) for each, packed, _ in members.averages]
        parts = [self._weighted(each) for each in (*changes, *values)]
        return [*parts, *(each.read_value() for each in members.counters)]

    def _sums(self, given: Sequence[Tensor]) -> list[Tensor]:
        """Returns the sums over all workers of what they give, and the counters of the chief."""
        count, end = len(self._members.weights), len(given) - len(self._members.counters)
        changes = self._sums_of_changes(given[:count])
        means = sent_in_packs(given[count:end], self._group.settings.pack_bytes, self._group.sum)
        with v1.device(CPU):
            return [*changes, *means, *map(self._group.broadcast, given[end:])]

    def _sums_of_changes(self, changes: Sequence[Tensor]) -> list[Tensor]:
        """Returns sums, with rests of earlier rounds if few bits are sent."""
        settings = self._group.settings
        if settings.bits == 32:
            return sent_in_packs(changes, settings.pack_bytes, self._group.sum)
        rests = [self._rest(weight) for weight in self._members.weights]
        parts = []
        for change, rest in zip(changes, rests, strict=True):
            with v1.device(rest.device):
                parts.append(change + rest.read_value())
        sums: list[Tensor] = [None] * len(parts)
        for pack in packs_of(parts, settings.pack_bytes):
            total, left = compressed_sum(pack.flat, self._group, Code(settings.bits))
            lefts = pack.split(left)
            for place, part, lost in zip(pack.places, pack.split(total), lefts, strict=True):
                with v1.control_dependencies([v1.assign(rests[place], lost).op]):
                    sums[place] = tf.identity(part)
        return sums

    def _taken(self, sums: Sequence[Tensor], is_mixed: bool) -> list[Operation]:
        """Returns the operations that give the variables what follows from the sums."""
        variables = self._members.all
        moved = self._outer.apply(self._centers, sums[: len(self._centers)])
        with v1.control_dependencies([moved]):
            values = [center.read_value() for center in self._centers]
        rest = iter(sums[len(values) :])
        values += [_on(each, unpacked, next(rest)) for each, _, unpacked in self._members.averages]
        values += rest
        if is_mixed:
            values = [self._mixed(*pair) for pair in zip(variables, values, strict=True)]
        assigned = [
            v1.assign(target, value).op
            for variable, value in zip(variables, values, strict=True)
            for target in (variable, *self._members.copies.get(variable.ref(), ()))
        ]
        with v1.control_dependencies(assigned):
            return [*assigned, *(state.refresh() for state in self._members.states)]

    def _mixed(self, variable: Variable, value: Tensor) -> Tensor:
        """Returns a mixture of a local value, and of one that all workers have."""
        if not variable.dtype.is_floating:
            return value
        with v1.device(variable.device):
            mixing = tf.cast(self.mixing, value.dtype)
            local = tf.math.multiply_no_nan(variable.read_value(), mixing)
            return local + (1 - mixing) * value

    def _weighted(self, values: Tensor) -> Tensor:
        """Returns this worker's part of a mean. The values of one without weight may be NaN."""
        with v1.device(values.device):
            return tf.math.multiply_no_nan(values, tf.cast(self.share, values.dtype))

    def _center(self, weight: Variable) -> Variable:
        """Makes the variable that holds the value of a weight at the start of a round."""
        shaped_as(weight, weight)
        return self._like(weight, weight, "")

    def _rest(self, weight: Variable) -> Variable:
        with v1.device(weight.device):
            zeros = tf.zeros(weight.shape)
            return self._rests.saved(f"outer/{weight.op.name}/rest", zeros)

    def _like(self, variable: Variable, value: Tensor, suffix: str = "/given") -> Variable:
        """Makes a variable for values such as `value`, beside one of the model."""
        dtype = value.dtype.base_dtype
        with v1.device(variable.device):
            zeros = functools.partial(tf.zeros, value.shape, dtype)
            return self._kept.between(f"outer/{variable.op.name}{suffix}", zeros)


def _on(variable: Variable, function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
    """Returns what a function makes of a value, on the device of a variable."""
    with v1.device(variable.device):
        return function(value)


def _difference(center: Variable, weight: Variable) -> Tensor:
    """Returns the center minus the weight; of 16-bit floats, in 32 bits."""
    dtype = weight.dtype.base_dtype
    dtype = tf.float32 if dtype.size < tf.float32.size else dtype
    with v1.device(weight.device):
        change = tf.cast(center.read_value(), dtype) - tf.cast(weight.read_value(), dtype)
        return shaped_as(change, weight)
