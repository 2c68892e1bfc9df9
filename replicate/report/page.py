"""The page: the report of a run in Markdown, with tables and links to pictures."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from replicate.report.curves import TRAINING, Curve, Runs
from replicate.report.kfac_health import kfac_health
from replicate.report.panels import BYTES_SENT, COUNTERS, KFAC, SPEED, label
from replicate.report.times import UNKNOWN, Times

_MOST_ROWS = 10
_LINKS = re.compile(r"[\\|\[\]]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""Characters that get a backslash: it and those that end a cell or belong to a link."""


def page(title: str, runs: Runs, pictures: Mapping[str, str], times: Times = UNKNOWN) -> str:
    """Returns the report as Markdown text.

    Pictures are file names by heading: "Curves", "K-FAC".
    """
    training = runs.get(TRAINING, {})
    lines = [f"# {_escaped(title)}", "", *_summary(runs, times)]
    for heading, picture in pictures.items():
        lines += ["", f"## {heading}", "", f"![{heading}]({picture})"]
        if heading == "K-FAC":
            lines += ["", *(f"- {_escaped(sentence)}" for sentence in kfac_health(training))]
            lines += ["", *_kfac(training)]
    for run, curves in runs.items():
        if run != TRAINING:
            lines += ["", f"## Evaluation: {_escaped(label(run))}", "", *_evaluation(curves)]
    return "\n".join(lines) + "\n"


def _summary(runs: Runs, times: Times) -> Iterator[str]:
    """Yields a table about the whole run: last step, last loss, speed and times."""
    last = max(curve.steps[-1] for curves in runs.values() for curve in curves.values())
    yield from _table(["", ""], [["last step", f"{last:,}"]])
    training = runs.get(TRAINING, {})
    if "loss" in training:
        loss = training["loss"]
        yield _row([f"training loss at step {loss.steps[-1]:,}", _number(loss.values[-1])])
    if BYTES_SENT in training:
        sent = training[BYTES_SENT]
        yield _row([f"bytes sent in rounds, at step {sent.steps[-1]:,}", f"{sent.values[-1]:,.0f}"])
    speeds = training[SPEED].values if SPEED in training else ()
    yield from (_row([name, text]) for name, text in times.facts(speeds).items())
    for kind, text, share in times.shares():
        yield _row([f"time: {kind}", f"{text} ({share:.0f} %)"])


def _evaluation(curves: Mapping[str, Curve]) -> Iterator[str]:
    """Yields a table of the newest results, and the step with the lowest loss."""
    by_step: dict[int, dict[str, float]] = {}
    for tag, curve in curves.items():
        for step, value in zip(curve.steps, curve.values, strict=True):
            by_step.setdefault(step, {})[tag] = value
    tags = sorted(curves, key=lambda tag: (tag != "loss", tag))
    steps = sorted(by_step)[-_MOST_ROWS:]
    rows = [[str(s), *(_number(by_step[s].get(tag, math.nan)) for tag in tags)] for s in steps]
    yield from _table(["step", *tags], rows)
    losses = {step: found["loss"] for step, found in by_step.items() if "loss" in found}
    known = [step for step, loss in losses.items() if math.isfinite(loss)]
    if known:
        best = min(known, key=lambda step: losses[step])
        yield ""
        yield f"Lowest loss of {len(by_step)} evaluations: {_number(losses[best])} at step {best}."


def _kfac(training: Mapping[str, Curve]) -> Iterator[str]:
    """Yields a table of the last damping and counters, and the largest condition number."""
    rows = [
        [name.replace("_", " "), _number(training[KFAC + name].values[-1])]
        for name in ("damping", *COUNTERS)
        if KFAC + name in training
    ]
    conditions = {
        tag.removeprefix(KFAC).removesuffix("/inverse_condition"): curve.values[-1]
        for tag, curve in training.items()
        if tag.startswith(KFAC) and tag.endswith("/inverse_condition")
    }
    known = [name for name, value in conditions.items() if math.isfinite(value)]
    if known:
        worst = max(known, key=lambda name: conditions[name])
        rows.append(["largest condition", f"{_number(conditions[worst])}, {worst}"])
    yield from _table(["at the last step", ""], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(heads)
    yield "|---" * len(heads) + "|"
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    """Returns a text that ends neither its cell nor its line, and begins no element and no link."""
    return _LINKS.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


def _number(value: float) -> str:
    return f"{value:.4g}"
