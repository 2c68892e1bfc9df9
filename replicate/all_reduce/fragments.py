"""Fragments: parts of the variables that have their rounds at different steps, spread over H.

Reference: Douillard et al. (2025), "Streaming DiLoCo with overlapping communication: Towards a
Distributed Free Lunch", arXiv 2501.18512, section 2.
"""

from collections.abc import Sequence
from typing import NamedTuple, final


@final
class Schedule(NamedTuple):
    """Steps of the rounds. Fragment p of P has its rounds ⌊(p + 1)H/P⌋ steps after multiples of H.

    Attributes:
      every: H, steps from one round of a fragment to its next.
      fragments: P, at most H.
    """

    every: int
    fragments: int

    def next_step(self, step: int) -> int:
        """Returns the first step after `step` at which a fragment has a round."""
        start = step - step % self.every
        return min(start + end for end in self._ends if start + end > step)

    def due(self, after: int, step: int) -> list[int]:
        """Returns the fragments with a round at a step above `after` and up to `step`."""
        ends = enumerate(self._ends)
        return [p for p, end in ends if (step - end) // self.every > (after - end) // self.every]

    @property
    def _ends(self) -> list[int]:
        return [(p + 1) * self.every // self.fragments for p in range(self.fragments)]


def cut(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Divides variables, by their places, into fragments of about the same size.

    The largest come first, and those of one size in their order. Each goes into the fragment that
    is smallest so far. So a fragment has layers from all over a deep model, not a piece of it.

    Args:
      sizes: Size of each variable.
      count: Number of fragments.
    """
    fragments: list[list[int]] = [[] for _ in range(count)]
    filled = [0] * count
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        chosen = filled.index(min(filled))
        fragments[chosen].append(place)
        filled[chosen] += sizes[place]
    return [sorted(fragment) for fragment in fragments]
