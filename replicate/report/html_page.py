"""HTML page: the report of one run, or the comparison of several, in one file without scripts.

Owns what is on the pages; the templates beside this module own how it looks. Jinja2 escapes all
names and values, whoever has written them. It is imported on first use.
"""

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from replicate.report.curves import TRAINING, Curve, Runs
from replicate.report.kfac_health import kfac_health
from replicate.report.metrics import best, direction
from replicate.report.panels import SPEED, comparison_panels, kfac_panels, label, main_panels
from replicate.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Plot, plot
from replicate.report.records import RunRecord
from replicate.report.ticks import duration
from replicate.report.times import UNKNOWN, Times

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_ROWS = 10
_MOST_VARIABLES = 500
_MOST_PANELS = 30
_GOOD = {"low": "lowest", "high": "highest", None: "last"}
_OF_A_PLACE = ("model_dir", "export_dir")


class ReportedRun(NamedTuple):
    """A run with everything that its directory holds."""

    name: str
    runs: Runs
    record: RunRecord
    times: Times = UNKNOWN


def run_page(run: ReportedRun) -> str:
    """Returns the page of one run."""
    panels = main_panels(run.runs, most=_MOST_PANELS)
    left_out = len(main_panels(run.runs, most=None)) - len(panels)
    evaluations = {name: curves for name, curves in run.runs.items() if name != TRAINING}
    plots = [plot(panel) for panel in panels]
    kfac_plots = [plot(panel) for panel in kfac_panels(run.runs)]
    return _render(
        "run.html",
        title=f"Report of {run.name}",
        facts=_facts(run),
        times=run.times,
        plots=plots,
        kfac_plots=kfac_plots,
        kfac_health=kfac_health(run.runs.get(TRAINING, {})),
        has_seconds=_have_seconds([*plots, *kfac_plots]),
        num_undrawn=left_out,
        evaluations={label(name): _table(curves) for name, curves in evaluations.items()},
        best=[
            (
                f"{label(name)} {tag}",
                _GOOD[direction(tag)],
                _text(found.value),
                f"{found.step:,}",
                _time_at(curves[tag], found.step),
            )
            for name, curves in evaluations.items()
            for tag in _in_order(curves)
            if (found := best(tag, curves[tag]))
        ],
        record=run.record,
        variables=run.record.variables[:_MOST_VARIABLES],
        constant=_constant(run.record.variables),
        num_hidden=max(0, len(run.record.variables) - _MOST_VARIABLES),
    )


def comparison_page(runs: Sequence[ReportedRun]) -> str:
    """Returns the page that compares several runs."""
    panels = comparison_panels({run.name: run.runs for run in runs})
    shown = panels[:_MOST_PANELS]
    plots = [plot(panel) for panel in shown]
    return _render(
        "comparison.html",
        title=f"Comparison of {len(runs)} runs",
        names=[run.name for run in runs],
        facts=_rows_of_facts(runs),
        spent=_rows_of_times(runs),
        plots=plots,
        has_seconds=_have_seconds(plots),
        num_undrawn=len(panels) - len(shown),
        best=_best_rows(runs),
        differences=_differences(runs),
        notes=[f"{run.name}: {note}" for run in runs for note in run.record.notes],
    )


def _have_seconds(plots: Sequence[Plot]) -> bool:
    """Returns True if a picture can be shown by seconds."""
    return any(each.by_seconds is not None for each in plots)


def _time_at(curve: Curve, step: int) -> str:
    """Returns the text of the time of training at a step; "" if it is not known."""
    if not curve.seconds:
        return ""
    return duration(curve.seconds[curve.steps.index(step)])


def _render(name: str, **values: Any) -> str:
    jinja2 = importlib.import_module("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["ends_of_words"] = re.compile(r"[^_./]*[_./]|[^_./]+")  # to break lines at
    environment.globals["frame"] = {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
    }
    return str(environment.get_template(name).render(**values))


def _facts(run: ReportedRun) -> dict[str, str]:
    """Returns the facts at the top of a page: name -> text."""
    runs, record = run.runs, run.record
    training = runs.get(TRAINING, {})
    last = max(curve.steps[-1] for curves in runs.values() for curve in curves.values())
    facts = {"last step": f"{last:,}"}
    if "loss" in training:
        loss = training["loss"]
        facts["last training loss"] = f"{_text(loss.values[-1])} (step {loss.steps[-1]:,})"
    facts |= run.times.facts(training[SPEED].values if SPEED in training else ())
    if not run.times.seconds:
        facts |= _time_of_curves(runs)
    if record.num_towers:
        facts["towers"] = str(record.num_towers)
    if record.variables:
        facts["parameters"] = f"{record.num_parameters:,}"
    if record.started:
        facts["started (UTC)"] = re.sub(r"T(\d\d:\d\d):\d\dZ", r" \1", record.started)
    return facts


def _time_of_curves(runs: Runs) -> dict[str, str]:
    """Returns the time of training that the curves cover, for a run without a time.json."""
    ends = [
        curve.seconds[-1] for curves in runs.values() for curve in curves.values() if curve.seconds
    ]
    return {"time of training": duration(max(ends))} if ends else {}


def _rows_of_times(runs: Sequence[ReportedRun]) -> list[tuple[str, list[str]]]:
    """Returns a row for each kind of time, with its seconds and its share for each run."""
    found = [
        {kind: f"{text} ({share:.0f} %)" for kind, text, share in run.times.shares()}
        for run in runs
    ]
    kinds = dict.fromkeys(kind for shares in found for kind in shares)
    return [(kind, [shares.get(kind, "–") for shares in found]) for kind in kinds]


def _rows_of_facts(runs: Sequence[ReportedRun]) -> list[tuple[str, list[str]]]:
    """Returns a row for each fact, with a text for each run."""
    found = [_facts(run) for run in runs]
    names = dict.fromkeys(name for facts in found for name in facts)
    return [(name, [facts.get(name, "–") for facts in found]) for name in names]


def _table(curves: Mapping[str, Curve]) -> dict[str, Any]:
    """Returns the newest results of an evaluation: tags, and rows of a step and texts."""
    tags = _in_order(curves)
    by_step: dict[int, dict[str, float]] = {}
    for tag, curve in curves.items():
        for step, value in zip(curve.steps, curve.values, strict=True):
            by_step.setdefault(step, {})[tag] = value
    steps = sorted(by_step)[-_MOST_ROWS:]
    rows = [
        (f"{step:,}", [_text(by_step[step][tag]) if tag in by_step[step] else "–" for tag in tags])
        for step in steps
    ]
    return {"tags": tags, "rows": rows, "num_earlier": len(by_step) - len(steps)}


def _constant(variables: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns columns of the model table that say the same of all variables, and what they say."""
    return {
        key: variables[0][key]
        for key in ("dtype", "device", "note")
        if len({row[key] for row in variables}) == 1
    }


def _best_rows(runs: Sequence[ReportedRun]) -> list[dict[str, Any]]:
    """Returns a row for each metric of an evaluation, with its best value in each run."""
    keys = dict.fromkeys(
        (name, tag)
        for run in runs
        for name, curves in run.runs.items()
        if name != TRAINING
        for tag in _in_order(curves)
    )
    rows = []
    for name, tag in keys:
        side = direction(tag)
        found = [
            best(tag, run.runs[name][tag]) if tag in run.runs.get(name, {}) else None
            for run in runs
        ]
        values = [result.value for result in found if result]
        winner = {"low": min, "high": max}[side](values) if side and len(values) > 1 else None
        rows.append(
            {
                "metric": f"{label(name)} {tag}",
                "good": _GOOD[side],
                "cells": [
                    (
                        _text(result.value),
                        f"{result.step:,}",
                        _time_at(run.runs[name][tag], result.step),
                        result.value == winner,
                    )
                    if result
                    else ("–", "", "", False)
                    for run, result in zip(runs, found, strict=True)
                ],
            }
        )
    return rows


def _differences(runs: Sequence[ReportedRun]) -> list[tuple[str, list[str]]]:
    """Returns a row for each setting, device or version that is not the same in all runs."""
    found = [
        {
            f"{section}.{name}": text
            for section, values in (
                *run.record.settings.items(),
                ("devices", run.record.devices),
                ("environment", run.record.environment),
            )
            for name, text in values.items()
            if name not in _OF_A_PLACE
        }
        for run in runs
    ]
    names = dict.fromkeys(name for settings in found for name in settings)
    rows = [(name, [settings.get(name, "–") for settings in found]) for name in names]
    return [(name, texts) for name, texts in rows if len(set(texts)) > 1]


def _in_order(curves: Mapping[str, Curve]) -> list[str]:
    return sorted(curves, key=lambda tag: (tag != "loss", tag))


def _text(value: float) -> str:
    return f"{value:.4g}"
