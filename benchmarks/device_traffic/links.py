"""Bytes from each memory to each other, summed over the tensors that cross in a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from benchmarks.device_traffic.traffic import Crossing


class Links(NamedTuple):
    """Bytes on links, by (source, target) as in ("GPU:0", "CPU:0").

    Tensors whose size is not static count as 0.
    """

    bytes: Mapping[tuple[str, str], int]

    @property
    def largest(self) -> int:
        """Most bytes on one link, in one direction."""
        return max(self.bytes.values(), default=0)

    @property
    def most_received(self) -> int:
        """Most bytes that go into one memory."""
        return max((self.received(target) for _, target in self.bytes), default=0)

    @property
    def most_sent(self) -> int:
        """Most bytes that come out of one memory."""
        return max((self.sent(source) for source, _ in self.bytes), default=0)

    def received(self, memory: str) -> int:
        """Returns the bytes that go into a memory."""
        return sum(size for (_, target), size in self.bytes.items() if target == memory)

    def sent(self, memory: str) -> int:
        """Returns the bytes that come out of a memory."""
        return sum(size for (source, _), size in self.bytes.items() if source == memory)

    def between_halves(self, gpus: int) -> int:
        """Returns the bytes from the second half of the GPUs to the first, or back if more."""
        crossing = [0, 0]
        for (source, target), size in self.bytes.items():
            if source.startswith("GPU:") and target.startswith("GPU:"):
                halves = [int(name[4:]) >= gpus // 2 for name in (source, target)]
                if halves[0] != halves[1]:
                    crossing[halves[0]] += size
        return max(crossing)


def of(crossings: Iterable[Crossing], scope: str = "") -> Links:
    """Returns the links of crossings that operations in a name scope need."""
    found: dict[tuple[str, str], int] = {}
    for each in crossings:
        if any(name.startswith(scope) for name in each.consumers):
            link = (each.source, each.target)
            found[link] = found.get(link, 0) + (each.bytes or 0)
    return Links({link: size for link, size in found.items() if size})
