"""WorkerRounds: workers that train apart for some steps, and meet in rounds.

Nothing is sent in the steps between. A round begins with a small report of each worker to all: the
rows of its batches since the last round, its step, and if it wants to stop. The reports give each
worker its share. Then the changes of the weights are summed in packs, and the outer optimizer makes
its step (`replicate.outer_step`), on all workers alike.

Three kinds of variables are equal on all workers after a round: the weights and what the outer
optimizer keeps; statistics of batches and K-FAC's factors, which are averaged; and the global step.
All others, such as the slots of the inner optimizer, stay those of each worker.

Fragments of the variables may have their rounds at different steps. With a delay, the sums are made
beside local steps, and taken later. What is equal in between is the centers, from which changes are
measured; the last round is one of all fragments without delay, and makes the weights equal.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Variable
from replicate.all_reduce.background_run import BackgroundRun
from replicate.all_reduce.fragment_round import TAKEN, TOGETHER, FragmentRound, Members
from replicate.all_reduce.fragments import Schedule, cut
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.round_variables import RoundVariables
from replicate.batch_norm.statistics import batch_statistics
from replicate.protocols import AVERAGED_IN_ROUNDS, AveragedInRounds

v1 = tf.compat.v1


class Report(NamedTuple):
    """The reports of all workers in a round.

    Attributes:
      step: The global step of the worker that has made most steps.
      wishes: Each worker's wish to stop, by rank; 0 for none.
      ended: True for each worker that makes no more steps, by rank.
      saves: True if the chief saves the variables after this round, as all do after the last one.
      shares: Share of this worker in the mean of each fragment; None if no worker has made a step
        since its last round.
    """

    step: int
    wishes: list[float]
    ended: list[bool]
    saves: bool
    shares: list[float | None]


@final
class WorkerRounds:
    """Rounds of all workers, in the graph of one of them.

    Attributes:
      group: The workers.
      variables: Variables that are equal on all workers after a round, once `build` was called.
      are_equal: True if the weights are, too, and no local step was made since.
      rests: Maker of the variables with what was cut off from the values that this worker has sent.
    """

    def __init__(self, group: WorkerGroup, rows: Any = None):
        """Adds a counter of rows to the graph.

        Args:
          group: The workers.
          rows: Rows of this worker's batch, an int or an integer scalar; None if that is unknown,
            and all workers have the same.
        """
        self.group = group
        self.variables: list[Variable] = []
        self.are_equal = True
        settings = group.settings
        self._schedule = Schedule(settings.every or 1, settings.fragments)
        self._rows_of_batch = 1 if rows is None else rows
        self._kept = RoundVariables(settings.fragments > 1 or settings.delay > 0)
        self.rests = RoundVariables()
        self._rows = [self._kept.counter(f"rows_of_round{each}") for each in self._labels]
        self._last_step = 0
        self._open: dict[int, int] = {}
        """Fragments whose sums are to be taken, with the steps of their rounds."""
        self._running: dict[int, BackgroundRun] = {}

    @property
    def _labels(self) -> list[str]:
        """Ends of the names of what each fragment keeps. Other fragments have other names."""
        count = self._schedule.fragments
        return [""] if count == 1 else [f"_{p + 1}_of_{count}" for p in range(count)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workers with their addresses, by rank."""
        return self.group.names

    def counted(self, batch: Any) -> Any:
        """Returns a batch whose rows are counted when it is there.

        Args:
          batch: Nest of this worker's Tensors.
        """
        leaves = tf.nest.flatten(batch, expand_composites=True)
        with v1.name_scope("count_rows"), v1.device(CPU):
            rows = tf.cast(self._rows_of_batch, tf.int64)
            with v1.control_dependencies([leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]):
                counted = [each.assign_add(rows, read_value=False) for each in self._rows]
            with v1.control_dependencies(counted):
                return tf.nest.map_structure(
                    lambda leaf: tf.identity(leaf) if isinstance(leaf, tf.Tensor) else leaf,
                    batch,
                    expand_composites=True,
                )

    def build(self) -> None:
        """Adds the operations of rounds, when the graph has all variables of the model.

        Raises:
          ValueError: The graph has no weights, or fewer than fragments, or the shape of one is not
            known.
          TypeError: The outer optimizer is of another kind.
        """
        global_step = v1.train.get_or_create_global_step()
        sent_before = self.group.bytes_sent
        bytes_sent = RoundVariables().saved("outer/bytes_sent", tf.constant(0, tf.int64))
        v1.summary.scalar("bytes_sent", bytes_sent)
        with v1.name_scope("round"):
            with v1.device(CPU):
                self._wish = v1.placeholder_with_default(0, [], "wish")
                self._has_ended = v1.placeholder_with_default(False, [], "has_ended")
                self._saves = v1.placeholder_with_default(False, [], "saves")
                self._new_step = v1.placeholder(tf.int64, [], "step")
                self._sent = v1.placeholder(tf.int64, [], "sent")
                numbers = (*self._rows, self._wish, self._has_ended, self._saves, global_step)
                report = tf.stack([tf.cast(each, tf.float64) for each in numbers])
                self._reports = self.group.of_each(report)
                self._bytes_of_report = self.group.bytes_sent - sent_before
                self._count = v1.group(
                    v1.assign(global_step, tf.cast(self._new_step, global_step.dtype.base_dtype)),
                    bytes_sent.assign_add(self._sent, read_value=False),
                )
            self._fragments = [
                FragmentRound(members, self.group, rows, self._kept, self.rests, label)
                for members, rows, label in zip(
                    self._members(), self._rows, self._labels, strict=True
                )
            ]
        self.variables += [*(each for one in self._fragments for each in one.shared), global_step]

    def _members(self) -> list[Members]:
        """Returns the variables of each fragment."""
        weights, copies, count = _weights(), batch_statistics(), self._schedule.fragments
        if len(weights) < count:
            raise ValueError(
                f"AllReduce: fragments={count} are more than the variables that are trained, "
                f"{len(weights)}: {', '.join(each.op.name for each in weights)}. A fragment has "
                "whole variables."
            )
        known = {variable.ref(): own for variable, own in copies}
        states: list[AveragedInRounds] = []
        if self.group.settings.averages_curvature:
            states = v1.get_collection(AVERAGED_IN_ROUNDS)
        given = [(each, tf.identity, tf.identity) for each, _ in copies if each.dtype.is_floating]
        averages = [*given, *(each for state in states for each in state.averages())]
        counters = [each for each, _ in copies if not each.dtype.is_floating]
        members = [Members([], [], [], known, []) for _ in range(count)]
        for p, places in enumerate(_cut(weights, count)):
            members[p].weights.extend(weights[place] for place in places)
        for p, places in enumerate(_cut([each for each, _, _ in averages], count)):
            members[p].averages.extend(averages[place] for place in places)
        members[-1].counters.extend(counters)
        members[-1].states.extend(states)
        return members

    def start(self, session: v1.Session) -> None:
        """Goes on where the variables of a session are. Call it before the first step."""
        step, marks = session.run(
            [v1.train.get_global_step(session.graph), [each.mark for each in self._fragments]]
        )
        pairs = list(zip(self._fragments, marks, strict=True))
        session.run([fragment.begin for fragment, mark in pairs if mark == TOGETHER])
        self._last_step, self._running = int(step), {}
        # Without a delay, which the run before had, the next round measures all from the centers.
        has_delay = self.group.settings.delay > 0
        self._open = {p: int(mark) for p, mark in enumerate(marks) if mark >= 0 and has_delay}
        self.are_equal = all(mark == TOGETHER for mark in marks)

    @property
    def is_complete(self) -> bool:
        """True if all workers could go on with the variables of this one, also inside of a round.

        They are then what a checkpoint may hold: no sums are on the way.
        """
        return self._kept.is_cut and all(run.is_done for run in self._running.values())

    @property
    def next_step(self) -> int:
        """The next step at which a fragment has a round, or the sums of one are taken."""
        taken = [step + self.group.settings.delay for step in self._open.values()]
        return min([self._schedule.next_step(self._last_step), *taken])

    def is_due(self, step: int) -> bool:
        """Returns True if a fragment has a round at a step, or since the last round."""
        return self._schedule.next_step(self._last_step) <= step

    def report(self, session: v1.Session, wish: int, has_ended: bool, saves: bool) -> Report:
        """Sends a report, and returns those of all workers, which must call it at the same steps.

        Args:
          session: Session of this worker.
          wish: Wish of this worker to stop, 0 for none.
          has_ended: True if this worker makes no more steps.
          saves: True if this worker saves the variables after the round.
        """
        own = {self._wish: wish, self._has_ended: has_ended, self._saves: saves}
        *rows, wishes, ended, saving, steps = session.run(self._reports, own).T
        totals = [(each[self.group.rank], each.sum()) for each in rows]
        return Report(
            int(steps.max()),
            wishes.tolist(),
            [bool(each) for each in ended],
            bool(saving[0]) or bool(ended.all()),
            [own / total if total > 0 else None for own, total in totals],
        )

    def exchange(self, session: v1.Session, report: Report, is_last: bool) -> None:
        """Makes the rounds that are due after the reports.

        Nothing changes in a fragment if no worker has made a step since its last round.

        Args:
          session: Session of this worker.
          report: The reports.
          is_last: True for whole rounds of all fragments, which make the weights equal.
        """
        step = report.step
        self.take(session, step)
        due = self._schedule.due(self._last_step, step)
        if is_last:
            due = list(range(len(self._fragments)))
            for p in list(self._open):
                # Local weights that no step has changed since the round have nothing to keep.
                self._take(
                    session, p, {self._fragments[p].mixing: 0} if report.shares[p] is None else {}
                )
        self._last_step, self.are_equal = step, is_last or not self._kept.is_cut
        due = [p for p in due if report.shares[p] is not None]
        if due:
            self._begin(session, report, due, is_last)
        if report.saves or any(report.wishes):
            for run in self._running.values():
                run.wait()

    def _begin(
        self, session: v1.Session, report: Report, due: Sequence[int], is_last: bool
    ) -> None:
        """Runs the first part of a round of some fragments; all parts if it is the last round."""
        fragments, step = [self._fragments[p] for p in due], report.step
        sent = self._bytes_of_report + sum(each.bytes_sent for each in fragments)
        fed: dict[Any, Any] = {self._new_step: step, self._sent: sent}
        has_delay = self.group.settings.delay > 0
        mark = TOGETHER if is_last else step if has_delay else TAKEN
        for p, fragment in zip(due, fragments, strict=True):
            fed |= {fragment.share: report.shares[p], fragment.mark_after: mark, fragment.mixing: 0}
        first, *others = zip(*(fragment.runs for fragment in fragments), strict=True)
        session.run([first, self._count], fed)
        if is_last:
            for run in others:
                session.run(run, fed)
        elif has_delay:
            exchange = BackgroundRun(session, others[0])
            self._open |= dict.fromkeys(due, step)
            self._running |= dict.fromkeys(due, exchange)

    def take(self, session: v1.Session, step: int) -> None:
        """Takes the sums of the rounds whose delay is over at a step."""
        for p, start in list(self._open.items()):
            if start + self.group.settings.delay <= step:
                self._take(session, p, {})

    def _take(self, session: v1.Session, p: int, fed: dict[Any, Any]) -> None:
        """Takes the sums of a fragment when they are there, with what is fed."""
        if p in self._running:
            self._running.pop(p).wait()
        fragment = self._fragments[p]
        session.run(fragment.runs[-1], {fragment.mark_after: TAKEN, **fed})
        del self._open[p]


def _weights() -> list[Variable]:
    """Returns the trainable floating-point variables of the default graph."""
    shared = {each.ref() for each in v1.global_variables()}
    trained = [each for each in v1.trainable_variables() if each.dtype.is_floating]
    weights = [each for each in trained if each.ref() in shared]
    if not weights:
        raise ValueError(
            "Cannot train with AllReduce(every=…): model_fn has made no trainable floating-point "
            "variable, so that the workers have nothing to average."
        )
    return weights


def _cut(variables: Sequence[Variable], count: int) -> list[list[int]]:
    """Divides variables, by their places, into fragments by their bytes."""
    return cut([(each.shape.num_elements() or 0) * each.dtype.size for each in variables], count)
