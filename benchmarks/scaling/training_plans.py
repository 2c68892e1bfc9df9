"""Computation and communication of each process in a round of training, by mode.

Implements the formulas of docs/explanations/scaling.md. `PLANS` gives the stages of each process
and the bytes that it exchanges with the parameter servers. `links` sums the bytes of each link.
`seconds_per_step` runs the simulator with the measured constants of a machine.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from benchmarks.scaling.simulator import Phase, Process, seconds_per_round


class Training(NamedTuple):
    """Model to train, and the cost of its computation on an otherwise idle machine.

    Attributes:
      parameters: Bytes of all trained variables, P.
      tensors: Number of variables, T.
      computing: Seconds of a step's forward pass, backward pass and update.
      interval: Steps between two averagings, or between two inversions of K-FAC, k.
      factors: Bytes of all factors of K-FAC, F. A layer has a² + g² numbers.
      statistics: Seconds of K-FAC's statistics of a batch.
      inversion: Seconds of all inverses.
      preconditioning: Seconds of the products with the inverses.
      pack: Most bytes that all-reduce sends at once, `AllReduce.pack_bytes`.
      small: Seconds per step of small work that is not modelled: counters of K-FAC, messages that
        coordinate averaging.
      chief_cpu: CPU seconds of the small work of the chief and of the servers for it.
      other_cpu: CPU seconds of the small work of each other worker.
    """

    parameters: float
    tensors: int
    computing: float
    interval: int = 10
    factors: float = 0.0
    statistics: float = 0.0
    inversion: float = 0.0
    preconditioning: float = 0.0
    pack: float = 8 << 20
    small: float = 0.0
    chief_cpu: float = 0.0
    other_cpu: float = 0.0


class Stage(NamedTuple):
    """Part of a process's round: computation, then communication, then merging.

    Attributes:
      seconds: Seconds of computation.
      cpu: CPU seconds of the computation. None means `seconds`.
      down: Bytes from the parameter servers.
      up: Bytes to the parameter servers.
      requests: Messages that carry these bytes.
      starts: Started steps that involve the servers.
      merged: Bytes of the tensors that the servers merge for all workers.
      merges: Number of these tensors.
      givers: Number of workers that sent them.
      hops: Messages that follow each other round a ring of workers.
      ring: Bytes that a worker sends to its neighbour in the ring, and gets from the other one.
    """

    seconds: float = 0.0
    cpu: float | None = None
    down: float = 0.0
    up: float = 0.0
    requests: float = 0.0
    starts: float = 0.0
    merged: float = 0.0
    merges: float = 0.0
    givers: float = 1.0
    hops: float = 0.0
    ring: float = 0.0


class Role(NamedTuple):
    """Group of processes that do the same.

    Attributes:
      number: Number of processes.
      stages: Stages of a round, in order.
      waits: True if they wait for the others at the end of each round.
    """

    number: int
    stages: tuple[Stage, ...]
    waits: bool


class Plan(NamedTuple):
    """Round of a cluster.

    Attributes:
      roles: All roles. Rounds are those of the first role.
      closing: Stages of the chief once all waiting processes have finished their round.
      steps: Gradients of each worker in a round.
      gradients: Number of workers that compute gradients.
    """

    roles: tuple[Role, ...]
    closing: tuple[Stage, ...] = ()
    steps: int = 1
    gradients: int = 1


class Costs(NamedTuple):
    """Seconds per step, per message or tensor, and per byte."""

    start: float
    each: float
    byte: float

    def of(self, starts: float, number: float, size: float) -> float:
        """Returns the seconds of `number` messages with `size` bytes in all."""
        return starts * self.start + number * self.each + size * self.byte


class Constants(NamedTuple):
    """Measured costs of communication.

    Attributes:
      exchange: Duration of an exchange between one worker and one server.
      worker: CPU seconds of the worker in an exchange.
      server: CPU seconds of the server in an exchange.
      merge: Duration of merging gradients on the servers at the chief's command.
      merge_cpu: CPU seconds of merging, per tensor and byte of each worker's gradient.
      cores: Cores of this machine that processes can use in practice.
      ring: Duration of the sums over a ring of workers.
      ring_cpu: CPU seconds of a worker in these.
    """

    exchange: Costs
    worker: Costs
    server: Costs
    merge: Costs
    merge_cpu: Costs
    cores: float
    ring: Costs = Costs(0.0, 0.0, 0.0)
    ring_cpu: Costs = Costs(0.0, 0.0, 0.0)


class Hosts(NamedTuple):
    """Hosts of the processes. Each process has its own.

    Attributes:
      servers: Number of parameter servers, S.
      cores: Cores of each server's host.
      bandwidth: Bandwidth of each host's link, bytes per second and direction.
      latency: Seconds of a round trip.
    """

    servers: int = 1
    cores: float = 8
    bandwidth: float = math.inf
    latency: float = 0.0


def asynchronous(training: Training, workers: int) -> Plan:
    """Each worker fetches the variables and applies its gradient, independently of the others."""
    return Plan((Role(workers, _step(training), waits=False),), gradients=workers)


def synchronous(training: Training, workers: int) -> Plan:
    """The servers apply the mean of all gradients at the chief's command."""
    role = Role(workers, _step(training), waits=True)
    return Plan((role,), (_merge(training, workers),), gradients=workers)


def all_reduce(training: Training, workers: int) -> Plan:
    """Equal workers add up their gradients round a ring; there are no servers.

    Each pack of gradients goes round in 2(n - 1) messages of 1/n of its bytes. Two more sums, of a
    few bytes, carry the workers' reports and the loss.
    """
    sums = math.ceil(training.parameters / training.pack) + 2
    sending = Stage(
        starts=1,
        hops=2 * (workers - 1) * sums,
        ring=2 * training.parameters * (workers - 1) / workers,
    )
    stages = (Stage(seconds=training.computing), *([sending] if workers > 1 else []))
    return Plan((Role(workers, stages, waits=True),), gradients=workers)


def averaging(training: Training, workers: int) -> Plan:
    """Workers send their weights to the servers and fetch the mean in every k-th step.

    In the other steps they exchange the same messages without content.
    """
    size, tensors, steps = training.parameters, training.tensors, training.interval
    stages = (
        Stage(down=size, requests=tensors, starts=1),
        Stage(seconds=steps * training.computing),
        Stage(requests=2 * tensors * (steps - 1), starts=steps - 1),
        Stage(up=size, requests=tensors),
    )
    roles = (
        Role(1, (*stages, _small(training, training.chief_cpu, steps)), waits=True),
        Role(workers - 1, (*stages, _small(training, training.other_cpu, steps)), waits=True),
    )
    return Plan(roles, (_merge(training, workers),), steps, workers)


def chief_worker(training: Training, workers: int) -> Plan:
    """K-FAC where only the chief updates averages and inverses."""
    chief = Role(1, _step(training, _statistics(training), _inverses(training, 1.0)), waits=True)
    others = Role(workers - 1, (*_step(training), _others_small(training)), waits=True)
    return Plan((chief, others), _kfac_closing(training, workers), gradients=workers)


def shared(training: Training, workers: int) -> Plan:
    """K-FAC where each worker adds statistics and inverts its part of the factors."""
    stages = _step(training, _statistics(training), _inverses(training, 1 / workers))
    others = Role(workers - 1, (*stages, _others_small(training)), waits=True)
    roles = (Role(1, stages, waits=True), others)
    return Plan(roles, _kfac_closing(training, workers), gradients=workers)


def dedicated_workers(training: Training, workers: int) -> Plan:
    """K-FAC where 60 % of the workers compute gradients, and the others averages or inverses.

    Raises:
      ValueError: `workers` is less than 3.
    """
    if workers < 3:
        raise ValueError(
            f"Cannot plan dedicated workers: got workers={workers}, it takes at least 3. Give more."
        )
    gradients = -(-3 * workers // 5)
    inverting = max(1, workers - -(-4 * workers // 5))
    adding = workers - gradients - inverting
    small = _others_small(training)
    fetch = Stage(down=training.parameters, requests=training.tensors, starts=1)
    adds = (fetch, Stage(seconds=training.computing), *_statistics(training))
    inverts = _inverses(training._replace(interval=1), 1.0)
    aside = [(adding, adds), (inverting, inverts)] if adding else [(1, (*adds, *inverts))]
    trains = [
        Role(1, _step(training), waits=True),
        Role(gradients - 1, (*_step(training), small), waits=True),
    ]
    roles = (*trains, *(Role(count, (*stages, small), waits=False) for count, stages in aside))
    return Plan(roles, _kfac_closing(training, gradients), gradients=gradients)


PLANS: Mapping[str, Callable[[Training, int], Plan]] = {
    "all_reduce": all_reduce,
    "asynchronous": asynchronous,
    "synchronous": synchronous,
    "averaging": averaging,
    "chief_worker": chief_worker,
    "dedicated_workers": dedicated_workers,
    "shared": shared,
}


def towers(training: Training, count: int, copied_bytes_per_second: float) -> float:
    """Returns the seconds of a step of towers in one process, each on its own device."""
    return training.computing + (count - 1) * training.parameters / copied_bytes_per_second


def links(plan: Plan) -> dict[str, float]:
    """Returns the bytes of a round over each link, by direction.

    "servers" is the sum over all servers. "worker" is a worker other than the chief, of the first
    role that has one. "chief" includes the closing stages.
    """
    first = plan.roles[0]
    other = first if first.number > 1 or len(plan.roles) == 1 else plan.roles[1]
    closing_down, closing_up = _bytes(plan.closing)
    parts = [(role.number, *_bytes(role.stages)) for role in plan.roles]
    chief, worker = _bytes(first.stages), _bytes(other.stages)
    ring = sum(stage.ring for stage in other.stages)
    return {
        "from servers": sum(n * down for n, down, _ in parts) + closing_down,
        "to servers": sum(n * up for n, _, up in parts) + closing_up,
        "to chief": chief[0] + closing_down + ring,
        "from chief": chief[1] + closing_up + ring,
        "to worker": worker[0] + ring,
        "from worker": worker[1] + ring,
    }


def seconds_per_step(plan: Plan, constants: Constants, hosts: Hosts | None = None) -> float:
    """Returns the simulated seconds between two gradients of a worker.

    Without hosts, all processes share one machine.
    """
    machines = _together(constants) if hosts is None else _apart(hosts, constants)
    roles = [role for role in plan.roles if role.number]
    processes = [Process(machines.phases(role.stages), role.number, role.waits) for role in roles]
    closing = machines.phases(plan.closing)
    return seconds_per_round(processes, machines.capacities, closing) / plan.steps


def cpu_seconds_per_step(plan: Plan, constants: Constants) -> float:
    """Returns the CPU seconds of all processes for a step of each worker, on one machine."""
    machines = _together(constants)
    parts = [*((role.number, role.stages) for role in plan.roles), (1, plan.closing)]
    taken = [
        number * phase.demands.get("cores", 0.0)
        for number, stages in parts
        for phase in machines.phases(stages)
    ]
    return sum(taken) / plan.steps


class _Machines(NamedTuple):
    """Converter of stages to phases of the simulator."""

    constants: Constants
    capacities: Mapping[str, float]
    hosts: Hosts
    are_one: bool

    def phases(self, stages: Iterable[Stage]) -> list[Phase]:
        return [phase for stage in stages for phase in self._of(stage)]

    def _of(self, stage: Stage) -> list[Phase]:
        if stage.hops:
            return [self._round_the_ring(stage)]
        costs, begun, givers = self.constants, bool(stage.merges), stage.givers
        merging = costs.merge.of(begun, stage.merges, stage.merged)
        merging_cpu = costs.merge_cpu.of(begun, givers * stage.merges, givers * stage.merged)
        cpu = stage.seconds if stage.cpu is None else stage.cpu
        computing = {"cores": cpu} if self.are_one else {}
        named = "cores" if self.are_one else "servers' cores"
        return [
            Phase(stage.seconds, computing),
            Phase(self._exchange_seconds(stage), self._exchange(stage)),
            Phase(merging / self.hosts.servers, {named: merging_cpu / self.hosts.servers}),
        ]

    def _round_the_ring(self, stage: Stage) -> Phase:
        """Returns the phase of sums over workers. On hosts of their own each has its own link."""
        costs, sent = self.constants, (stage.starts, stage.hops, stage.ring)
        ring = costs.ring._replace(byte=max(costs.ring.byte, 1 / self.hosts.bandwidth))
        seconds = ring.of(*sent) + stage.hops * self.hosts.latency / 2
        demands = {"cores": costs.ring_cpu.of(*sent)} if self.are_one else {}
        return Phase(seconds, demands)

    def _exchange_seconds(self, stage: Stage) -> float:
        costs = self.constants.exchange
        costs = costs._replace(byte=max(costs.byte, 1 / self.hosts.bandwidth))
        length = costs.of(stage.starts, stage.requests, stage.down + stage.up)
        return length + bool(stage.requests) * self.hosts.latency

    def _exchange(self, stage: Stage) -> dict[str, float]:
        size, servers = stage.down + stage.up, self.hosts.servers
        if self.are_one:
            parts = (self.constants.worker, self.constants.server)
            return {"cores": sum(part.of(stage.starts, stage.requests, size) for part in parts)}
        second = servers * self.hosts.bandwidth
        share = stage.requests / servers, size / servers
        return {
            "servers' cores": self.constants.server.of(stage.starts, *share),
            "from servers": stage.down / second,
            "to servers": stage.up / second,
        }


def _together(constants: Constants) -> _Machines:
    return _Machines(constants, {"cores": constants.cores}, Hosts(), are_one=True)


def _apart(hosts: Hosts, constants: Constants) -> _Machines:
    capacities = {"servers' cores": hosts.cores, "from servers": 1.0, "to servers": 1.0}
    return _Machines(constants, capacities, hosts, are_one=False)


def _step(training: Training, *before_sending: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Stages of a worker that fetches the variables, computes a gradient and sends it."""
    fetch = Stage(down=training.parameters, requests=training.tensors, starts=1)
    compute = Stage(seconds=training.computing)
    send = Stage(up=training.parameters, requests=training.tensors)
    return (fetch, compute, *(stage for stages in before_sending for stage in stages), send)


def _merge(training: Training, givers: int) -> Stage:
    return Stage(merged=training.parameters, merges=training.tensors, givers=givers)


def _small(training: Training, cpu: float, steps: int = 1) -> Stage:
    return Stage(seconds=steps * training.small, cpu=steps * cpu)


def _others_small(training: Training) -> Stage:
    """Small work of K-FAC on a worker other than the chief. Lasts as long as its CPU time."""
    return Stage(seconds=training.other_cpu)


def _statistics(training: Training) -> tuple[Stage, ...]:
    factors = 2 * training.tensors
    return (Stage(seconds=training.statistics), Stage(up=training.factors, requests=factors))


def _inverses(training: Training, part: float) -> tuple[Stage, ...]:
    """Inverses of every k-th step, spread evenly over all steps. The others send empty messages."""
    requests, part = part * 2 * training.tensors, part / training.interval
    return (
        Stage(down=part * training.factors, requests=requests),
        Stage(seconds=part * training.inversion),
        Stage(up=part * training.factors, requests=requests),
    )


def _kfac_closing(training: Training, givers: int) -> tuple[Stage, ...]:
    """Closing stages of K-FAC.

    The servers add the statistics to the averages. The chief then fetches gradients and inverses,
    multiplies them, and sends the update.
    """
    size, tensors = training.parameters, training.tensors
    return (
        _merge(training, givers),
        Stage(merged=training.factors, merges=2 * tensors),
        Stage(down=size + training.factors, requests=3 * tensors, starts=1),
        Stage(seconds=training.preconditioning),
        _small(training, training.chief_cpu),
        Stage(up=size, requests=tensors),
    )


def _bytes(stages: Iterable[Stage]) -> tuple[float, float]:
    """Returns the bytes (down, up)."""
    all_stages = list(stages)
    return sum(stage.down for stage in all_stages), sum(stage.up for stage in all_stages)
