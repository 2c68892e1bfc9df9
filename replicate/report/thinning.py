"""Thinning: fewer points of a long curve, with its lows and highs.

A picture of some hundred pixels cannot show thousands of points, and a page should not hold them.
"""

import math

from replicate.report.curves import Curve

MOST_POINTS = 400


def thinned(curve: Curve, most_points: int = MOST_POINTS) -> Curve:
    """Returns at most so many points of a curve, among them the first and the last.

    The points are divided into groups of neighbours. Of each group, the smallest and the largest
    value stay; a group without finite values keeps one of them, which shows as a gap.
    """
    count = len(curve.steps)
    if count <= most_points:
        return curve
    groups = most_points // 2 - 1
    kept = {0, count - 1}
    for group in range(groups):
        indices = range(count * group // groups, count * (group + 1) // groups)
        finite = [index for index in indices if math.isfinite(curve.values[index])]
        if finite:
            kept |= {min(finite, key=curve.values.__getitem__)}
            kept |= {max(finite, key=curve.values.__getitem__)}
        else:
            kept.add(indices[0])
    chosen = sorted(kept)
    return Curve(
        tuple(curve.steps[i] for i in chosen),
        tuple(curve.values[i] for i in chosen),
        tuple(curve.seconds[i] for i in chosen) if curve.seconds else (),
    )
