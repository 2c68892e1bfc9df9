import json
import math
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")

from replicate.report.curves import Curve, read_curves
from replicate.report.html_page import ReportedRun, comparison_page, run_page
from replicate.report.records import read_record
from replicate.report.times import Times

SCRIPT = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Collects the elements, the attributes, and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.attributes, self.open, self.text = [], [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "wbr", "input"):
            self.open.append(tag)
            self.text += " "

    def handle_startendtag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data

    @property
    def words(self):
        return " ".join(self.text.split())


@pytest.fixture
def run(untimed_runs, tmp_path):
    variables = [
        {"variable": f"v{i}", "shape": "2", "dtype": "float32", "parameters": 2000, "note": f"n{i}"}
        for i in range(501)
    ]
    devices = {"towers": ["/cpu:0", "/cpu:1"], "variables": ["/cpu:0"], "consolidation": "/cpu:0"}
    written = {
        "started": "2026-01-02T03:04:05Z",
        "variables": variables,
        "devices": devices,
        "params": {"rate": 0.125},
        "environment": {"tensorflow": "9.8.7"},
    }
    (tmp_path / "run.json").write_text(json.dumps(written))
    return ReportedRun("small", untimed_runs, read_record(tmp_path))


def test_run_page_holds_everything_about_a_run(run):
    page = Reader(run_page(run))
    assert page.open == []
    for words in (
        "Report of small",
        "last step 11 last training loss 0.0625 (step 11) steps per second 50 (median of 40 to 60, "
        "evaluations and saves included) towers 2",
        "parameters 1,002,000 started (UTC) 2026-01-02 03:04",
        "training batch 0.0625",
        "test loss lowest 0.75 6 test accuracy highest 0.625 11",
        "Evaluation: test step loss accuracy 6 0.75 0.5 11 0.875 0.625",
        "501 variables, 1,002,000 parameters; dtype float32.",
        "variable shape parameters note v0 2 2,000 n0",
        "1 more variables are in run.json.",
        "towers /cpu:0 /cpu:1 variables on /cpu:0 consolidation /cpu:0",
        "tensorflow 9.8.7",
        "rate 0.125",
        "There is no config.json in this directory",
        "2 steps were not finite and skipped.",
        "The damping fell from 0.25 to 0.125",
    ):
        assert words in page.words
    assert page.elements.count("figure") == 3 + 3


def test_pages_need_no_script_and_no_network(run):
    for text in (run_page(run), comparison_page([run, run._replace(name="other")])):
        page = Reader(text)
        assert not {"script", "img", "link", "iframe", "object"} & set(page.elements)
        assert not {"src", "href"} & {name for name, _ in page.attributes}
        assert "url(" not in text
        assert "@import" not in text
        assert "prefers-color-scheme: dark" in text
        assert "@media print" in text


def test_every_curve_is_drawn_by_steps_and_by_time(timed_dir):
    curves = read_curves(timed_dir)
    kfac = {"kfac/monitor/damping": curves["training"]["loss"]}
    runs = {**curves, "training": {**curves["training"], **kfac}}
    run = ReportedRun("a", runs, read_record(timed_dir))
    for text in (run_page(run), comparison_page([run, run._replace(name="b")])):
        page = Reader(text)
        assert page.open == []
        figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
        assert figures
        for figure in figures:
            assert figure.count('class="by-steps"') == 1
            assert figure.count('class="by-seconds"') == 1
        assert "loss by step" in text or "loss, evaluation by step" in text
        assert re.findall(r"after 30 s|at step 20", text)
        assert "#by-seconds:checked ~ .plots .by-steps" in text, "the switch needs no script"
        switch, _, pictures = text.partition('<div class="plots">')
        assert switch.count('type="radio"') == 2
        assert "by steps</label>" in switch
        assert "radio" not in pictures
        assert "the time of training without the pauses" in page.words
    assert "time of training 30 s" in Reader(run_page(run)).words
    assert "0.75 20 30 s" in Reader(run_page(run)).words
    assert "0.75 step 20, 30 s" in Reader(comparison_page([run, run])).words


def test_training_without_evaluations_and_times(tmp_path):
    curves = {"loss": Curve((1, 101), (2.0, 0.5)), "global_step/sec": Curve((150,), (9.0,))}
    run = ReportedRun("a", {"training": curves}, read_record(tmp_path))
    alone, both = run_page(run), comparison_page([run, run._replace(name="b")])
    assert "last step 150 last training loss 0.5 (step 101)" in Reader(alone).words
    assert "None of the runs was evaluated." in Reader(both).words
    assert "No setting is known to differ." in Reader(both).words
    for text in (alone, both):
        assert "radio" not in text.partition("</style>")[2]
        assert "<svg viewBox" in text
        assert 'class="by-' not in text


def test_pages_tell_where_the_time_went(run):
    times = Times({"training": 9.0, "start": 1.0}, 0.25, 0.5, 3)
    page = Reader(run_page(run._replace(times=times)))
    assert page.open == []
    assert (
        "steps per second 50 (median of 40 to 60, evaluations and saves included) total time 10 s "
        "time per step 250 ms (mean, 4 per second, evaluations and saves not included) "
        "time to first step 500 ms"
    ) in page.words
    assert "Where the time went training 9 s 90 % start 1 s 10 %" in page.words
    assert "Sums over 3 calls of train." in page.words
    both = comparison_page([run._replace(times=times), run._replace(name="b")])
    assert "Where the time went small b training 9 s (90 %) – start" in Reader(both).words
    assert "total time 10 s –" in Reader(both).words


def test_names_and_values_are_text(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({SCRIPT: {SCRIPT: SCRIPT}, "started": SCRIPT}))
    (tmp_path / "config.json").write_text(json.dumps({"flags": {SCRIPT: [SCRIPT]}}))
    curve = Curve((1, 2), (1.0, math.nan))
    runs = {"training": {SCRIPT: curve}, f"eval_{SCRIPT}": {SCRIPT: curve}}
    run = ReportedRun(SCRIPT, runs, read_record(tmp_path))
    for text in (run_page(run), comparison_page([run, run._replace(name="b")])):
        page = Reader(text)
        assert "script" not in page.elements
        assert SCRIPT in page.text
        assert page.open == []


def test_comparison_overlays_curves_and_names_the_best_and_the_differences(run, tmp_path):
    (tmp_path / "run.json").unlink()
    (tmp_path / "config.json").write_text(
        json.dumps({"params": {"rate": 0.5}, "run_config": {"model_dir": "x"}})
    )
    curves = {"eval_test": {"loss": Curve((3,), (0.25,)), "label/mean": Curve((3,), (7.0,))}}
    text = comparison_page([run, ReportedRun("other", curves, read_record(tmp_path))])
    page = Reader(text)
    for words in (
        "Comparison of 2 runs Comparison of 2 runs small other last step 11 3",
        "test loss lowest 0.75 step 6 0.25 step 3",
        "test accuracy highest 0.625 step 11 –",
        "test label/mean last – 7 step 3",
        "params.rate 0.125 0.5",
        "environment.tensorflow 9.8.7 –",
        "devices.towers /cpu:0 /cpu:1 –",
        "loss, test small 0.875 other 0.25",
        "other: There is no run.json",
    ):
        assert words in page.words
    assert re.findall(r'class="win">(\S+)', text) == ["0.25"]
    assert "model_dir" not in page.words


def test_many_scalars_are_not_all_drawn(tmp_path):
    curves = {f"tag{number}": Curve((1,), (1.0,)) for number in range(40)}
    run = ReportedRun("a", {"training": curves}, read_record(tmp_path))
    for text in (run_page(run), comparison_page([run, run._replace(name="b")])):
        page = Reader(text)
        assert page.elements.count("figure") == 30
        assert "10 more scalars are not drawn." in page.words
