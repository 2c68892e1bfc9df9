"""Linear transforms of one dimension of an image, so that products of few pixels are enough.

Owns the groups that `kfac.patches.spectral_products` multiplies, as NumPy arrays.

Let x(v) be pixel v along one dimension. Entries j and j' of the filter see x(t + j − p) and
x(t + j' − p) at locations t ∈ [0, W') with p pixels of padding. The aim is
Σ_t x(t + j − p)ᵀ x(t + j' − p). If t went on until both entries leave the image, the sum would be
the correlation at the shift Δ = j' − j. That takes one product per frequency: with
C(ω) = Σ_v cos(ωv) x(v),
S(ω) = Σ_v sin(ωv) x(v) and the frequencies ω = 2π(k + ½)/n for k < n/2,

    Σ_v x(v)ᵀ x(v + Δ) = 2/n Σ_ω cos(ωΔ) (CᵀC + SᵀS) + sin(ωΔ) (CᵀS − SᵀC)

for even n ≥ W + kernel − 1. With this n, pixels on opposite sides of the image do not meet in a
filter. Pairs of pixels that are seen only at t < 0 or t ≥ W' are subtracted again. They are near
the border, and few if the filter is small.

So the result is a sum of products of transformed pixels within small groups: C and S of one
frequency, or two pixels near one border.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kfac.patches.filter_axis import FilterAxis


class Groups(NamedTuple):
    """Groups g of two members a, y_ga = Σ_v members[g, a, v] x(v).

    The product for entries j and j' is Σ_g Σ_ab weights[j, j', g, a, b] y_gaᵀ y_gb, over all groups
    of `waves` and of `borders`. Members are [groups, 2, size], and weights are
    [kernel, kernel, groups, 2, 2].
    """

    members: np.ndarray
    weights: np.ndarray

    def joined(self, others: "Groups") -> "Groups":
        """Returns these groups and others along the same dimension."""
        return Groups(
            np.concatenate([self.members, others.members]),
            np.concatenate([self.weights, others.weights], axis=2),
        )


def frequencies(axis: FilterAxis) -> np.ndarray:
    """Returns ω in radians per pixel."""
    half = (axis.size + axis.kernel) // 2
    return np.pi * (np.arange(half) + 0.5) / half


def shifts(axis: FilterAxis) -> np.ndarray:
    """Returns Δ = j' − j of all pairs of entries, [kernel, kernel]."""
    entries = np.arange(axis.kernel)
    return entries - entries[:, np.newaxis]


def waves(axis: FilterAxis) -> Groups:
    """Returns the groups of cosine and sine, one for each frequency."""
    omega = frequencies(axis)
    angles = np.multiply.outer(omega, np.arange(axis.size))
    turns = np.multiply.outer(shifts(axis), omega)
    cosines, sines = (f(turns) / len(omega) for f in (np.cos, np.sin))
    return Groups(
        np.stack([np.cos(angles), np.sin(angles)], axis=1),
        np.stack([cosines, sines, -sines, cosines], axis=-1).reshape(*turns.shape, 2, 2),
    )


def borders(axis: FilterAxis) -> Groups:
    """Returns the groups that subtract the products seen outside of the locations."""
    first = range(min(axis.size, axis.kernel - 1 - axis.before))
    last = range(max(0, axis.out - axis.before), axis.size)
    groups = [
        *_border(axis, first, lambda location: location < 0),
        *_border(axis, last, lambda location: location >= axis.out),
    ]
    members = np.array([members for members, _ in groups]).reshape(-1, 2, axis.size)
    weights = np.array([weights for _, weights in groups])
    weights = weights.reshape(-1, axis.kernel, axis.kernel, 2, 2)
    return Groups(members, np.moveaxis(weights, 0, 2))


def _border(
    axis: FilterAxis, pixels: Sequence[int], is_outside: Callable[[int], bool]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns members and weights for each two of the pixels, or for a single pixel."""
    groups = []
    done = set()
    for pair in itertools.combinations(pixels, min(2, len(pixels))) if pixels else ():
        members = np.zeros([2, axis.size])
        weights = np.zeros([axis.kernel, axis.kernel, 2, 2])
        members[range(len(pair)), pair] = 1
        for (a, ours), (b, others) in itertools.product(enumerate(pair), repeat=2):
            if (ours, others) in done:
                continue
            done.add((ours, others))
            for j, other_j in np.ndindex(axis.kernel, axis.kernel):
                if other_j - j == others - ours and is_outside(ours - j + axis.before):
                    weights[j, other_j, a, b] = -1
        groups.append((members, weights))
    return groups
