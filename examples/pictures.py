"""Pictures of the example programs: reconstructions, codes and samples, as PNG files.

`examples/curves.py` draws the curves of a run. Programs import this module at their end, because it
imports matplotlib.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.mnist import CLASSES, Examples

_PIXELS_PER_INCH = 120
_COLUMNS = 10
_SHOWN = 4


def draw_autoencoder(
    examples: Examples,
    decoded: Sequence[np.ndarray],
    codes: Sequence[np.ndarray],
    path: str,
) -> None:
    """Draws images above their reconstructions, and beside them the codes of all images.

    The PNG file has 1200 x 540 pixels. Codes are two numbers for each image.
    """
    figure = Figure(figsize=(10, 4.5), dpi=_PIXELS_PER_INCH, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    by_digit = [np.flatnonzero(examples.labels == digit)[:_SHOWN] for digit in range(CLASSES)]
    rows = []
    for shown in zip(*by_digit, strict=False):
        rows += [[images[i] for i in shown] for images in (examples.images, decoded)]
    _show_grid(left, rows)
    left.set_title("test images, each above what two numbers say of it", loc="left", fontsize=11)
    points = np.array(codes)
    colours = right.scatter(
        points[:, 0], points[:, 1], c=examples.labels, cmap="tab10", s=9, vmin=-0.5, vmax=9.5
    )
    figure.colorbar(colours, ax=right, ticks=range(CLASSES), label="digit")
    right.set_title("the two numbers", loc="left", fontsize=11)
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def draw_samples(samples: Sequence[np.ndarray], path: str, title: str) -> None:
    """Draws images [height, width, 1] in rows of ten into a PNG file, 720 pixels wide."""
    rows = [samples[start : start + _COLUMNS] for start in range(0, len(samples), _COLUMNS)]
    figure = Figure(figsize=(6, 0.6 * len(rows) + 0.25), dpi=_PIXELS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    _show_grid(axes, rows)
    axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(path)


def _show_grid(axes: Axes, rows: Sequence[Sequence[np.ndarray]]) -> None:
    """Shows rows of equally many images as one, with a line of background between them."""
    framed = [[np.pad(image[..., 0], 1, constant_values=0.5) for image in row] for row in rows]
    axes.imshow(np.block(framed), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()
