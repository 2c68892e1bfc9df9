"""One dimension of an image under a filter of stride 1: the pixels that each entry sees.

Also owns the order in which pairs of filter rows are kept. Called by the fast ways to compute the
second moment of patches. Sizes and padding come from `kfac.patches.extraction`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kfac.patches.extraction import ConvGeometry, output_size, padding_before_and_after


class FilterAxis(NamedTuple):
    """One dimension of the image, and the filter's size and padding along it.

    There are `before` zeros before the image, and `out` locations.
    """

    size: int
    kernel: int
    before: int
    out: int

    def seen(self, entry: int) -> np.ndarray:
        """Returns the pixels that an entry of the filter sees, in order of the locations."""
        return np.arange(self.out) + entry - self.before

    def window(self, entry: int, shift: int) -> tuple[int, int]:
        """Returns start and end of the pixels v that an entry sees with v + shift in the image."""
        start = max(0, entry - self.before)
        return start, max(start, min(self.size - shift, self.out + entry - self.before))


def rows_and_columns(shape: Sequence[Any], geometry: ConvGeometry) -> tuple[FilterAxis, FilterAxis]:
    """Returns the axes of images of a shape [N, ..., c]; a one-dimensional image has one column.

    Their spatial dimensions, one or two, have static sizes. The filter has stride 1 and no
    dilation.
    """
    axes = []
    for dimension, size in enumerate(shape[1:-1]):
        before, _ = padding_before_and_after(size, dimension, geometry)
        out = max(output_size(size, dimension, geometry), 0)
        axes.append(FilterAxis(size, geometry.kernel[dimension], before, out))
    rows, columns = [*axes, FilterAxis(1, 1, 0, 1)][:2]
    return rows, columns


def entry_pairs(kernel: int) -> list[tuple[int, int]]:
    """Returns the pairs (i, i') of entries of a filter with i ≤ i', by their distance."""
    return [(i, i + shift) for shift in range(kernel) for i in range(kernel - shift)]
