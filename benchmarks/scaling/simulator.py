"""Time, bytes and utilization of workers that add up gradients in every step, or meet in rounds.

A simulation in NumPy, step by step, of n equal workers on a ring: rounds of H steps, in few bits,
in fragments that are spread over the H steps and applied some steps later (Streaming DiLoCo, arXiv
2501.18512), with slow steps, with workers that fail, on links of any speed. Fed with what one
machine was seen to need, it also foretells the steps of `benchmarks.scaling` there.
`benchmarks.scaling.foretold` prints its tables.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

PART = {32: 1.0, 16: 1 / 2, 8: 65 / 256, 4: 33 / 256}
"""Bytes that a change of a weight is sent in, over those in 32 bits, by bits: the scales count."""


class Link(NamedTuple):
    """Link of each worker, both ways at the same time.

    Attributes:
      rate: Bytes per second.
      delay: Seconds from one worker to the next.
    """

    rate: float
    delay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Cost:
    """Processor seconds of a worker for the exchange, beside those of the link.

    Attributes:
      start: Of each sum or round.
      message: Of each message to the next worker.
      byte: Of each byte that is sent.
      coded: Of each byte of the weights, to change it into few bits and back.
    """

    start: float = 0.0
    message: float = 0.0
    byte: float = 0.0
    coded: float = 0.0


_ENDLESS = Link(math.inf)
_FREE = Cost()


@dataclasses.dataclass(frozen=True)
class Job:
    """Training of n workers.

    Attributes:
      workers: Number of workers.
      weights: Number of weights.
      step: Seconds of a worker's step if nothing is exchanged.
      link: Link of each worker.
      every: Steps between two rounds, 1 for sums in every step.
      bits: Bits of a change of a weight in a round.
      fragments: Rounds in `every` steps, each of an equal part of the weights.
      delay: Steps that go on while a round is under way. It is applied after them.
      pack: Bytes of a pack at most.
      cost: Processor seconds of the exchange.
      cores: Cores that all workers share; None if each has its own.
      slow: Probability of a slow step, and how many times as long it takes.
      lifetime: Mean seconds until a worker fails.
      restart: Seconds until a worker that has failed is back.
      notice: Seconds in which the others notice it and go on without it; None if all start again.
      save: Seconds between two checkpoints, for those that start again.
    """

    workers: int
    weights: float
    step: float
    link: Link = _ENDLESS
    every: int = 1
    bits: int = 32
    fragments: int = 1
    delay: int = 0
    pack: float = 8 * 2**20
    cost: Cost = _FREE
    cores: int | None = None
    slow: tuple[float, float] = (0.0, 1.0)
    lifetime: float = math.inf
    restart: float = 120.0
    notice: float | None = None
    save: float = 600.0

    @property
    def share(self) -> float:
        """Workers for each core, 1 at least."""
        return max(1.0, self.workers / self.cores) if self.cores else 1.0


def round_bytes(job: Job) -> float:
    """Returns the bytes that a worker sends in a round of one fragment, or to sum gradients."""
    ring = 2 * (job.workers - 1) / job.workers
    return ring * 4 * job.weights / job.fragments * PART[job.bits]


def round_seconds(job: Job) -> float:
    """Returns the seconds of a round of one fragment after its report, or of a sum.

    All packs are on their way at the same time.
    """
    if job.workers == 1:
        return 0.0
    cost, sent, held = job.cost, round_bytes(job), 4 * job.weights / job.fragments
    hops = 2 * (job.workers - 1)
    busy = cost.start + hops * math.ceil(held / job.pack) * cost.message
    busy += held * cost.coded if job.bits < 32 else 0.0
    byte = max(1 / job.link.rate, job.share * cost.byte)
    return job.share * busy + hops * job.link.delay + sent * byte


def report_seconds(job: Job) -> float:
    """Returns the seconds of the small report to all with which a round begins.

    All wait for it, also if the changes are sent beside the steps.
    """
    hops = 2 * (job.workers - 1) if job.every > 1 else 0
    return hops * (job.link.delay + job.share * job.cost.message)


class Outcome(NamedTuple):
    """Result of a simulation.

    Attributes:
      seconds: Seconds of all steps.
      utilization: Part of the workers' time in which they made steps that count.
      sent: Bytes that a worker sent for a step, on average.
    """

    seconds: float
    utilization: float
    sent: float


def simulate(job: Job, steps: int, seed: int = 0) -> Outcome:
    """Returns what `steps` steps of each worker take. The same seed gives the same outcome.

    Raises:
      ValueError: The fragments do not divide the steps between two rounds, or workers fail so
        often that all always lose what they have done.
    """
    if job.every % job.fragments:
        raise ValueError(f"{job.fragments} fragments do not divide {job.every} steps.")
    run = _Run(job, np.random.default_rng(seed))
    while run.step < steps:
        before = run.clocks.max()
        run.make_step()
        run.meet(run.step == steps)
        run.save()
        run.fail(before)
        if run.failures > 1000 + steps:
            raise ValueError(f"{job} makes no progress: it fails before it can save.")
    seconds = float(run.clocks.max())
    useful = run.counted * job.share * job.step / (job.workers * seconds)
    return Outcome(seconds, useful, run.meetings * round_bytes(job) / steps)


class _Run:
    """Clocks of the workers of a job."""

    def __init__(self, job: Job, random: np.random.Generator) -> None:
        self._job, self._random = job, random
        self.clocks = np.zeros(job.workers)
        self._back = np.zeros(job.workers)
        self._under_way: list[tuple[int, float]] = []
        self._free = 0.0
        self._saved = (0, 0, 0.0)
        self.step, self.counted, self.meetings, self.failures = 0, 0, 0, 0
        self._present = self._back <= 0

    def make_step(self) -> None:
        """Lets each worker that is there make a step."""
        job, now = self._job, self.clocks.max()
        self._present = self._back <= now
        slow = self._random.random(job.workers) < job.slow[0]
        self.clocks += job.share * job.step * np.where(slow, job.slow[1], 1.0)
        self.clocks[~self._present] = self.clocks[self._present].max()
        self.step += 1
        self.counted += int(self._present.sum())

    def meet(self, is_last: bool) -> None:
        """Begins the round that is due, and waits for the one that is to be applied.

        The last round is of all fragments.
        """
        job = self._job
        if self.step % (job.every // job.fragments) == 0 or is_last:
            parts = job.fragments if is_last else 1
            self.clocks[:] = self.clocks.max() + report_seconds(job)
            self._free = max(self._free, self.clocks[0]) + parts * round_seconds(job)
            self._under_way.append((self.step + job.delay, self._free))
            self.meetings += parts
        while self._under_way and (is_last or self._under_way[0][0] <= self.step):
            self.clocks = np.maximum(self.clocks, self._under_way.pop(0)[1])

    def save(self) -> None:
        """Saves a checkpoint if it is due."""
        now = self.clocks.max()
        if now - self._saved[2] >= self._job.save:
            self._saved = (self.step, self.counted, now)

    def fail(self, before: float) -> None:
        """Lets workers fail that were there since a time."""
        job, now = self._job, self.clocks.max()
        chances = self._random.random(job.workers) < (now - before) / job.lifetime
        failed = chances & self._present
        self.failures += int(failed.any())
        if failed.any() and job.notice is None:
            self.step, self.counted, _ = self._saved
            self.clocks[:], self._under_way = now + job.restart, []
            self._saved = (self.step, self.counted, now + job.restart)
        elif failed.any():
            self._back[failed] = now + job.restart
            is_alone = (self._back > now).all()
            self.clocks[:] = now + (job.restart if is_alone else job.notice)
