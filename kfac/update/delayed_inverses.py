"""Inverses that are computed beside the steps, and used some steps after their averages were taken.

At a refresh a copy of the averages is taken. A thread computes the inverses from it while the next
steps use the old ones. After a fixed number of steps all inverses change at once. So the numbers do
not depend on the speed of the thread, nor on how often a run is interrupted: the copy is saved, and
a run that is continued computes from it what was not used yet. Each of several workers computes its
share; they exchange the shares in the step that uses them. Called by the step.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §3: inverses computed asynchronously.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.curvature.inverses_in_turn import compute_in_turn, from_owners, own_factors
from kfac.estimator import FisherEstimator
from kfac.fisher_factors.base import FisherFactor, Known
from kfac.fisher_factors.kept import current_dampings
from kfac.protocols import OPTIONAL_STATE
from kfac.state import (
    CPU,
    Assignment,
    Change,
    Gate,
    OptionalState,
    assign_all,
    group,
    make_variable,
    read,
    run_if,
)
from kfac.update.background_changes import BackgroundChanges

v1 = tf.compat.v1

_NONE = -1
"""Number of the step of a copy if there is none to compute inverses from."""


@typing.final
class Snapshot:
    """Averages and dampings as they were when the copy was taken; zero before the first.

    Inverses that are computed while training goes on read the copy, since averages change in each
    step.
    """

    def __init__(self, factors: Sequence[FisherFactor]) -> None:
        """Makes the variables for some factors, beside the averages that they depend on."""
        sources = (source for factor in factors for source in factor.inverse_sources)
        self._sources = tuple({source.name: source for source in sources}.values())
        self._averages = [
            make_variable(
                f"{source.name}/cov_snapshot",
                source.cov_shape,
                source.dtype,
                source.cov_variables[0].device,
            )
            for source in self._sources
        ]
        dampings = (damping for factor in factors for damping in factor.dampings)
        self._dampings = tuple({damping.name: damping for damping in dampings}.values())
        names = [len(self._dampings)]
        self._damping_values = make_variable("damping_snapshot", names, tf.float64, CPU)

    @property
    def variables(self) -> list[Variable]:
        """The averages, and a vector of the dampings."""
        return [*self._averages, self._damping_values]

    def taken(self) -> list[Change]:
        """Returns the changes of `variables` that take the averages and dampings of now."""
        dampings = current_dampings(self._dampings)
        with v1.device(CPU):
            values = [tf.cast(dampings[damping.name], tf.float64) for damping in self._dampings]
            vector = tf.stack(values) if values else tf.zeros([0], tf.float64)
        changes: list[Change] = [Assignment(self._damping_values, vector)]
        for source, variable in zip(self._sources, self._averages, strict=True):
            with v1.device(variable.device):
                changes.append(Assignment(variable, source.value))
        return changes

    def dampings(self) -> dict[str, Tensor]:
        """Reads the dampings, float64 [] each, by name."""
        with v1.device(CPU):
            values = tf.unstack(read(self._damping_values))
        return {damping.name: value for damping, value in zip(self._dampings, values, strict=True)}

    def averages(self) -> Known:
        """Reads the averages, by the factor's name."""
        pairs = zip(self._sources, self._averages, strict=True)
        return {source.name: read(variable) for source, variable in pairs}


@typing.final
class DelayedInverses:
    """Inverses of averages that are some steps old."""

    def __init__(self, estimator: FisherEstimator, delay: int) -> None:
        """Makes the copy's variables and the thread's part of the graph.

        The delay is the number of steps, ≥ 1, from a copy to the use of its inverses; it is less
        than that between copies.

        Raises:
          ValueError: Variables are on servers, or there is no graph to which a session belongs.
        """
        self._estimator = estimator
        self._delay = delay
        self._own = own_factors(estimator.factors)
        _check_place([v for factor in estimator.factors for v in factor.cov_variables])
        with tf.init_scope():
            self._taken_at = make_variable("snapshot_step", [], tf.int64, CPU, initial=_NONE)
            self._snapshot = Snapshot(estimator.factors)
            # A checkpoint lacks them if it was saved without a delay.
            name = "K-FAC's copy of the averages (inverse_delay)"
            v1.add_to_collection(OPTIONAL_STATE, OptionalState(name, self.variables))
        self._background = BackgroundChanges(
            f"{estimator.name}/inverses_beside_steps", self._computed
        )

    @property
    def variables(self) -> list[Variable]:
        """The copy, and the number of its step."""
        return [self._taken_at, *self._snapshot.variables]

    def update(
        self, step: Tensor, due: Tensor | bool, makes_step: Tensor | bool, averages: Operation
    ) -> Operation:
        """Returns an op that takes a copy, asks for its inverses or uses them, each when it is due.

        The inverses of the first step's copy are used in the same step: there are no others yet.

        Args:
          step: Number of steps so far, int64 [].
          due: bool [], or a Python bool; true to take a copy if none is waiting for its use.
          makes_step: bool [], or a Python bool; when it is false the op does nothing.
          averages: Updates the averages. Only what is taken waits for it.
        """
        with v1.device(CPU):
            pending = read(self._taken_at)
            takes = tf.logical_and(tf.equal(pending, _NONE), due)
            number = tf.where(takes, step, pending)
            delay = tf.constant(self._delay, tf.int64) * tf.cast(number > 0, tf.int64)
            is_old_enough = tf.logical_and(number >= 0, step - number >= delay)
            uses = tf.logical_and(is_old_enough, makes_step)
            waits = tf.logical_and(number > 0, tf.logical_not(uses))
        takes = Gate(takes, "known_after").known_after(averages)
        taken = run_if(takes, lambda: assign_all(self._snapshot.taken()))
        with v1.control_dependencies([taken]):
            requested = self._background.request(number, waits)
            used = run_if(uses, lambda: assign_all(self._inverses(number)))
        with v1.control_dependencies([used]), v1.device(CPU):
            left = tf.where(uses, tf.constant(_NONE, tf.int64), number)
            return group(requested, used, assign_all([Assignment(self._taken_at, left)]))

    def _inverses(self, number: Tensor) -> list[Change]:
        """Returns the changes of all inverses, from the workers that have computed them."""
        factors, devices = self._estimator.factors, self._estimator.inverse_devices
        results = iter(self._background.results(number))
        own: dict[int, Sequence[Change]] = {}
        for index in self._own:
            changes = [next(results) for _ in factors[index].inv_variables]
            with v1.device(devices[index]):
                own[index] = factors[index].move_average(changes)
        return from_owners(own, factors, devices)

    def _computed(self) -> list[Change]:
        """Computes this worker's share of the inverses from the copy."""
        factors, devices = self._estimator.factors, self._estimator.inverse_devices
        times = self._estimator.times
        start = times.begin("inverse")
        with v1.control_dependencies([start]):
            computed = compute_in_turn(
                [factors[index] for index in self._own],
                [devices[index] for index in self._own],
                self._snapshot.dampings(),
                self._snapshot.averages(),
            )
        changes = [change for own in computed for change in own]
        done = times.end("inverse", start, group(*(change.value for change in changes)))
        with v1.control_dependencies([done]):
            return [_copied(change) for change in changes]


def _copied(change: Change) -> Change:
    with v1.device(change.value.device):
        return change._replace(value=tf.identity(change.value))


def _check_place(variables: Sequence[Variable]) -> None:
    with tf.init_scope():
        if tf.executing_eagerly():
            raise ValueError(
                "Cannot compute K-FAC's inverses beside the steps: inverse_delay needs a graph and "
                "a session, and this step is a function of an eager program. Leave inverse_delay "
                "out."
            )
    elsewhere = [variable for variable in variables if "/job:" in variable.device]
    if elsewhere:
        raise ValueError(
            "Cannot compute K-FAC's inverses beside the steps: inverse_delay needs all variables "
            f"in this process, but {elsewhere[0].op.name!r} is on {elsewhere[0].device!r}. Leave "
            "inverse_delay out, or use kfac.ClusterKfacOpt, whose workers invert beside the others."
        )
