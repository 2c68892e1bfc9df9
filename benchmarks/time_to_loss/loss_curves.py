"""The picture of the races: the training loss by steps and by seconds.

Imports Matplotlib, so `benchmarks.time_to_loss` imports this module only when it draws.
"""

import statistics
from collections.abc import Mapping

from benchmarks import loss_pictures
from benchmarks.loss_pictures import Line, Row
from benchmarks.time_to_loss.loss_race import Result
from benchmarks.time_to_loss.race_settings import BASELINE, GROWING

_NAMES = {
    "momentum": "momentum SGD",
    BASELINE: "Adam",
    "kfac fixed": "K-FAC, fixed settings",
    "kfac": "K-FAC",
    GROWING: "K-FAC, growing batches",
    "tensorflow-kfac": "tensorflow/kfac",
}


def draw(found: Mapping[str, Mapping[str, Result]], path: str) -> None:
    """Draws a row of two panels for each problem into a PNG file.

    Results are by optimizer and, for other K-FACs, by their name; by problem.
    """
    seeds = max(len(result.curves) for results in found.values() for result in results.values())
    title = "Training loss, each optimizer at its best setting"
    loss_pictures.draw(
        title if seeds == 1 else f"{title}, {seeds} seeds each",
        "training loss, nats per image",
        [_row(problem, results) for problem, results in found.items()],
        path,
    )


def _row(problem: str, results: Mapping[str, Result]) -> Row:
    lines = [
        Line(_NAMES[name], curve.steps, curve.seconds, curve.losses)
        for name, result in results.items()
        for curve in result.curves
    ]
    target = statistics.median(curve.lowest for curve in results[BASELINE].curves)
    return Row(problem, lines, target, "Adam's lowest loss", _NAMES[BASELINE])
