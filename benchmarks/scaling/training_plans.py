"""What the processes of a cluster do in a round of training, in bytes and seconds, by mode.

Owns the formulas of docs/scaling.md: `PLANS` says who computes what and exchanges how many bytes
with the parameter servers, `links` adds these up by link, `seconds_per_step` gives them to the
simulator with the constants of a machine. `benchmarks.scaling` measures those and draws.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from benchmarks.scaling.simulator import Phase, Process, seconds_per_round


class Training(NamedTuple):
    """What is trained, and what it costs a worker that has nobody to talk to.

    Attributes:
      parameters: Bytes of all trained variables, P.
      tensors: How many variables, T.
      computing: Seconds of a step's forward and backward pass and update.
      interval: Steps between two averagings, or between two inverses of K-FAC, k.
      factors: Bytes of all of K-FAC's factors, F: of a layer a² + g² numbers.
      statistics: Seconds of K-FAC's statistics of a batch.
      inversion: Seconds of all inverses.
      preconditioning: Seconds of the products with the inverses.
      small: Seconds of each step for all that is small and not counted one by one: counters of
        K-FAC, what workers tell each other for averaging.
      chief_cpu: CPU seconds of the chief's part of it, and of the servers' in that.
      other_cpu: The same of each other worker.
    """

    parameters: float
    tensors: int
    computing: float
    interval: int = 10
    factors: float = 0.0
    statistics: float = 0.0
    inversion: float = 0.0
    preconditioning: float = 0.0
    small: float = 0.0
    chief_cpu: float = 0.0
    other_cpu: float = 0.0


class Work(NamedTuple):
    """A part of a process's round; its kinds follow one another.

    Attributes:
      seconds: In which one thread computes, or as many as `cpu` needs.
      cpu: CPU seconds of it; None stands for `seconds`.
      down: Bytes from the parameter servers.
      up: Bytes to the parameter servers.
      requests: Messages in which they go.
      starts: How often a step is begun that the servers have a part in.
      merged: Bytes that the servers put together for all, in `merges` tensors.
      merges: See `merged`.
      givers: How many workers have sent that.
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


class Role(NamedTuple):
    """Some processes that do the same.

    Attributes:
      number: How many.
      works: In a round, in order.
      waits: Whether they wait for the others at the end of each round.
    """

    number: int
    works: tuple[Work, ...]
    waits: bool


class Plan(NamedTuple):
    """A round of a cluster.

    Attributes:
      roles: Who takes part. Rounds are those of the first role.
      closing: What the chief does when all have come who wait.
      steps: Gradients that a worker computes in a round.
      gradients: How many workers compute gradients.
    """

    roles: tuple[Role, ...]
    closing: tuple[Work, ...] = ()
    steps: int = 1
    gradients: int = 1


class Costs(NamedTuple):
    """Seconds per step, per message and per byte.

    Attributes:
      start: Per step in which there are any.
      each: Per message, or per tensor.
      byte: Per byte.
    """

    start: float
    each: float
    byte: float

    def of(self, starts: float, number: float, size: float) -> float:
        """Returns the seconds of some messages with `size` bytes in all."""
        return starts * self.start + number * self.each + size * self.byte


class Constants(NamedTuple):
    """What it takes to exchange something, measured.

    Attributes:
      exchange: From begin to end, between one worker and one server.
      worker: CPU seconds of the worker in it.
      server: CPU seconds of the server in it.
      merge: From begin to end, for the servers to put gradients together at the chief's command.
      merge_cpu: CPU seconds of all in it; per tensor and byte of each worker's gradient.
      cores: Of this machine, which processes that share it can really use.
    """

    exchange: Costs
    worker: Costs
    server: Costs
    merge: Costs
    merge_cpu: Costs
    cores: float


class Hosts(NamedTuple):
    """Where the processes are: each on a host of its own.

    Attributes:
      servers: Parameter servers, S.
      cores: Of each server's host.
      bandwidth: Of each host's link, bytes per second and direction.
      latency: Seconds that a round trip adds.
    """

    servers: int = 1
    cores: float = 8
    bandwidth: float = math.inf
    latency: float = 0.0


def asynchronous(training: Training, workers: int) -> Plan:
    """Everybody fetches the variables, and applies a gradient, without a look at the others."""
    return Plan((Role(workers, _step(training), waits=False),), gradients=workers)


def synchronous(training: Training, workers: int) -> Plan:
    """The servers apply the mean of all gradients, at the chief's command."""
    role = Role(workers, _step(training), waits=True)
    return Plan((role,), (_merge(training, workers),), gradients=workers)


def averaging(training: Training, workers: int) -> Plan:
    """In every k-th step weights go to the servers, and their means come back.

    In the other steps the same messages are exchanged, but they are empty.
    """
    size, tensors, steps = training.parameters, training.tensors, training.interval
    works = (
        Work(down=size, requests=tensors, starts=1),
        Work(seconds=steps * training.computing),
        Work(requests=2 * tensors * (steps - 1), starts=steps - 1),
        Work(up=size, requests=tensors),
    )
    roles = (
        Role(1, (*works, _small(training, training.chief_cpu, steps)), waits=True),
        Role(workers - 1, (*works, _small(training, training.other_cpu, steps)), waits=True),
    )
    return Plan(roles, (_merge(training, workers),), steps, workers)


def chief_worker(training: Training, workers: int) -> Plan:
    """K-FAC whose chief alone updates averages and inverses."""
    chief = Role(1, _step(training, _statistics(training), _inverses(training, 1.0)), waits=True)
    others = Role(workers - 1, (*_step(training), _others_small(training)), waits=True)
    return Plan((chief, others), _kfac_closing(training, workers), gradients=workers)


def shared(training: Training, workers: int) -> Plan:
    """K-FAC in which every worker adds statistics and inverts its part of the factors."""
    works = _step(training, _statistics(training), _inverses(training, 1 / workers))
    others = Role(workers - 1, (*works, _others_small(training)), waits=True)
    roles = (Role(1, works, waits=True), others)
    return Plan(roles, _kfac_closing(training, workers), gradients=workers)


def dedicated_workers(training: Training, workers: int) -> Plan:
    """K-FAC in which 60 % of the workers compute gradients, the rest averages or inverses.

    Raises:
      ValueError: There are fewer than three workers.
    """
    if workers < 3:
        raise ValueError(
            f"Cannot plan dedicated workers: got workers={workers}, it takes at least 3. Give more."
        )
    gradients = -(-3 * workers // 5)
    inverting = max(1, workers - -(-4 * workers // 5))
    adding = workers - gradients - inverting
    small = _others_small(training)
    fetch = Work(down=training.parameters, requests=training.tensors, starts=1)
    adds = (fetch, Work(seconds=training.computing), *_statistics(training))
    inverts = _inverses(training._replace(interval=1), 1.0)
    aside = [(adding, adds), (inverting, inverts)] if adding else [(1, (*adds, *inverts))]
    trains = [
        Role(1, _step(training), waits=True),
        Role(gradients - 1, (*_step(training), small), waits=True),
    ]
    roles = (*trains, *(Role(count, (*works, small), waits=False) for count, works in aside))
    return Plan(roles, _kfac_closing(training, gradients), gradients=gradients)


PLANS: Mapping[str, Callable[[Training, int], Plan]] = {
    "asynchronous": asynchronous,
    "synchronous": synchronous,
    "averaging": averaging,
    "chief_worker": chief_worker,
    "dedicated_workers": dedicated_workers,
    "shared": shared,
}


def towers(training: Training, count: int, copied_bytes_per_second: float) -> float:
    """Returns the seconds of a step of some towers in one process, each on its own device.

    Args:
      training: Of one tower.
      count: How many towers.
      copied_bytes_per_second: To add up their gradients, one after the other.
    """
    return training.computing + (count - 1) * training.parameters / copied_bytes_per_second


def links(plan: Plan) -> dict[str, float]:
    """Returns the bytes of a round over each link, in the direction that its name tells.

    The servers' are those of all servers; "worker" is any but the chief, of the first role that has
    one. The chief's are those of a worker and of what it does for all.
    """
    first = plan.roles[0]
    other = first if first.number > 1 or len(plan.roles) == 1 else plan.roles[1]
    closing_down, closing_up = _bytes(plan.closing)
    parts = [(role.number, *_bytes(role.works)) for role in plan.roles]
    chief, worker = _bytes(first.works), _bytes(other.works)
    return {
        "from servers": sum(n * down for n, down, _ in parts) + closing_down,
        "to servers": sum(n * up for n, _, up in parts) + closing_up,
        "to chief": chief[0] + closing_down,
        "from chief": chief[1] + closing_up,
        "to worker": worker[0],
        "from worker": worker[1],
    }


def seconds_per_step(plan: Plan, constants: Constants, hosts: Hosts | None = None) -> float:
    """Returns the simulated time that a step takes, from a worker's gradient to its next one.

    Args:
      plan: Who does what.
      constants: Of the machines.
      hosts: Where the processes are; None stands for all on one machine.
    """
    machines = _together(constants) if hosts is None else _apart(hosts, constants)
    roles = [role for role in plan.roles if role.number]
    processes = [Process(machines.phases(role.works), role.number, role.waits) for role in roles]
    closing = machines.phases(plan.closing)
    return seconds_per_round(processes, machines.capacities, closing) / plan.steps


def cpu_seconds_per_step(plan: Plan, constants: Constants) -> float:
    """Returns the CPU seconds of all processes in a step of each worker, on one machine."""
    machines = _together(constants)
    parts = [*((role.number, role.works) for role in plan.roles), (1, plan.closing)]
    taken = [
        number * phase.demands.get("cores", 0.0)
        for number, works in parts
        for phase in machines.phases(works)
    ]
    return sum(taken) / plan.steps


class _Machines(NamedTuple):
    """Turns works into phases.

    Attributes:
      constants: Of the machines.
      capacities: Of the resources.
      hosts: Where the processes are.
      are_one: Whether all processes share one machine's cores.
    """

    constants: Constants
    capacities: Mapping[str, float]
    hosts: Hosts
    are_one: bool

    def phases(self, works: Iterable[Work]) -> list[Phase]:
        return [phase for work in works for phase in self._of(work)]

    def _of(self, work: Work) -> list[Phase]:
        costs, begun, givers = self.constants, bool(work.merges), work.givers
        merging = costs.merge.of(begun, work.merges, work.merged)
        merging_cpu = costs.merge_cpu.of(begun, givers * work.merges, givers * work.merged)
        cpu = work.seconds if work.cpu is None else work.cpu
        computing = {"cores": cpu} if self.are_one else {}
        named = "cores" if self.are_one else "servers' cores"
        return [
            Phase(work.seconds, computing),
            Phase(self._exchange_seconds(work), self._exchange(work)),
            Phase(merging / self.hosts.servers, {named: merging_cpu / self.hosts.servers}),
        ]

    def _exchange_seconds(self, work: Work) -> float:
        costs = self.constants.exchange
        costs = costs._replace(byte=max(costs.byte, 1 / self.hosts.bandwidth))
        length = costs.of(work.starts, work.requests, work.down + work.up)
        return length + bool(work.requests) * self.hosts.latency

    def _exchange(self, work: Work) -> dict[str, float]:
        size, servers = work.down + work.up, self.hosts.servers
        if self.are_one:
            parts = (self.constants.worker, self.constants.server)
            return {"cores": sum(part.of(work.starts, work.requests, size) for part in parts)}
        second = servers * self.hosts.bandwidth
        share = work.requests / servers, size / servers
        return {
            "servers' cores": self.constants.server.of(work.starts, *share),
            "from servers": work.down / second,
            "to servers": work.up / second,
        }


def _together(constants: Constants) -> _Machines:
    return _Machines(constants, {"cores": constants.cores}, Hosts(), are_one=True)


def _apart(hosts: Hosts, constants: Constants) -> _Machines:
    capacities = {"servers' cores": hosts.cores, "from servers": 1.0, "to servers": 1.0}
    return _Machines(constants, capacities, hosts, are_one=False)


def _step(training: Training, *before_sending: tuple[Work, ...]) -> tuple[Work, ...]:
    """A worker fetches the variables, computes, and sends a gradient."""
    fetch = Work(down=training.parameters, requests=training.tensors, starts=1)
    compute = Work(seconds=training.computing)
    send = Work(up=training.parameters, requests=training.tensors)
    return (fetch, compute, *(work for works in before_sending for work in works), send)


def _merge(training: Training, givers: int) -> Work:
    return Work(merged=training.parameters, merges=training.tensors, givers=givers)


def _small(training: Training, cpu: float, steps: int = 1) -> Work:
    return Work(seconds=steps * training.small, cpu=steps * cpu)


def _others_small(training: Training) -> Work:
    """Of a worker that is not the chief, beside K-FAC: no more than its CPU takes."""
    return Work(seconds=training.other_cpu)


def _statistics(training: Training) -> tuple[Work, ...]:
    factors = 2 * training.tensors
    return (Work(seconds=training.statistics), Work(up=training.factors, requests=factors))


def _inverses(training: Training, part: float) -> tuple[Work, ...]:
    """In every k-th step, but a k-th of them in every step here. Messages are empty in others."""
    requests, part = part * 2 * training.tensors, part / training.interval
    return (
        Work(down=part * training.factors, requests=requests),
        Work(seconds=part * training.inversion),
        Work(up=part * training.factors, requests=requests),
    )


def _kfac_closing(training: Training, givers: int) -> tuple[Work, ...]:
    """The chief fetches gradients and inverses, multiplies them, and sends the change.

    Before that the servers fold what was added to the statistics into the averages.
    """
    size, tensors = training.parameters, training.tensors
    return (
        _merge(training, givers),
        Work(merged=training.factors, merges=2 * tensors),
        Work(down=size + training.factors, requests=3 * tensors, starts=1),
        Work(seconds=training.preconditioning),
        _small(training, training.chief_cpu),
        Work(up=size, requests=tensors),
    )


def _bytes(works: Iterable[Work]) -> tuple[float, float]:
    """Bytes down and up."""
    all_works = list(works)
    return sum(work.down for work in all_works), sum(work.up for work in all_works)
