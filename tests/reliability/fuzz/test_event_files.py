"""Event files: `python -m replicate.report` makes a page, or refuses in one line."""

import contextlib
import io
import shutil
from unittest import mock

import pytest
import tensorflow as tf

from replicate.report import __main__ as report

v1 = tf.compat.v1
RECORDS = ("config.json", "run.json", "time.json")
DRAWN_ONE_IN = 25
"""Cases whose pictures are drawn; in the others only the pages are made."""


def write_events(folder, curves):
    with tf.Graph().as_default(), contextlib.closing(v1.summary.FileWriter(str(folder))) as writer:
        for tag, values in curves.items():
            for step, value in enumerate(values):
                scalar = v1.Summary.Value(tag=tag, simple_value=value)
                writer.add_summary(v1.Summary(value=[scalar]), 10 * step)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A model directory with the events of training and of two evaluations."""
    folder = tmp_path_factory.mktemp("events") / "run"
    kfac = {"kfac/monitor/damping": [0.1, 0.2], "kfac/monitor/skipped_steps": [0, 2]}
    curves = {"loss": [3.0, 2.0, 1.0], "global_step/sec": [9.0, 8.0], **kfac}
    write_events(folder, curves)
    write_events(folder / "eval", {"loss": [3.0, 2.5], "accuracy": [0.1, 0.5]})
    write_events(folder / "eval_test", {"loss": [3.5, float("nan")], "auc": [0.5]})
    (folder / "config.json").write_text('{"program": "p", "flags": {"seed": 1}, "params": {}}')
    (folder / "run.json").write_text(
        '{"started": "2026-01-01T00:00:00Z", "devices": {"towers": ["/cpu:0"], "variables": [""]},'
        ' "environment": {"gpus": 0}, "variables": [{"variable": "w", "shape": "[2]", "dtype":'
        ' "float32", "parameters": 2, "device": "", "note": ""}]}'
    )
    (folder / "time.json").write_text(
        '{"calls": 2, "steps": 3, "first_step_seconds": 0.5,'
        ' "seconds": {"start": 1, "training": 2}}'
    )
    return folder


def odd_scalars(draw, damage, folder):
    """Adds an event file with odd tags, values and steps."""
    with tf.io.TFRecordWriter(str(folder / "events.out.tfevents.9999999999.x")) as writer:
        for _ in range(draw.randrange(1, 6)):
            tag = draw.choice((*damage.odd_texts[:60], "loss", "accuracy", "kfac/monitor/damping"))
            number = draw.choice((0.0, -1e30, 1e38, float("nan"), float("inf"), -float("inf")))
            value = v1.Summary.Value(tag=tag, simple_value=number)
            if draw.random() < 0.3:
                odd = draw.choice((tf.constant("text"), tf.zeros([2, 0]), tf.constant(1.5)))
                tensor = tf.make_tensor_proto(odd.numpy() if hasattr(odd, "numpy") else odd)
                plugin = v1.SummaryMetadata.PluginData(plugin_name="scalars")
                metadata = v1.SummaryMetadata(plugin_data=plugin)
                value = v1.Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
            event = v1.Event(
                step=draw.choice((0, 1, -1, 2**31, 2**63 - 1, -(2**63))),
                wall_time=draw.choice((0.0, -1.0, 1e300, float("nan"), float("inf"))),
                summary=v1.Summary(value=[value]),
            )
            content = event.SerializeToString()
            writer.write(damage.bytes(draw, content) if draw.random() < 0.2 else content)


def change_events(draw, damage, folder):
    path = draw.choice(sorted(folder.rglob("events.*")))
    if path.is_file():
        path.write_bytes(damage.bytes(draw, path.read_bytes()))


def mix_events(draw, damage, folder):
    """Cuts the records of an event file, and mixes them with those of another."""
    contents = []
    for path in draw.choices(sorted(folder.rglob("events.*")), k=2):
        with contextlib.suppress(tf.errors.OpError, OSError):
            contents += [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    draw.shuffle(contents)
    with tf.io.TFRecordWriter(str(folder / "events.out.tfevents.1.mixed")) as writer:
        for content in contents[: draw.randrange(len(contents) + 1)]:
            writer.write(content)


def change_record(draw, damage, folder):
    path = folder / draw.choice(RECORDS)
    if path.is_file():
        path.write_bytes(damage.bytes(draw, path.read_bytes()))


def replace(draw, damage, folder):
    names = (*RECORDS, "report.html", "report.md", "report.png", "eval_x", "events.out.tfevents.2")
    files = [path for path in folder.rglob("*") if path.is_file()]
    damage.path(draw, draw.choice((folder / draw.choice(names), *sorted(files))))


def put_link(draw, damage, folder):
    path = draw.choice((folder / "eval_link", folder / "events.out.tfevents.3", folder / "eval"))
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(draw.choice(("/absent", path.name, ".")))


def remove_events(draw, damage, folder):
    for path in folder.glob("events.*"):
        path.unlink() if not path.is_dir() else shutil.rmtree(path)


CHANGES = (
    *(change_events,) * 5,
    *(odd_scalars, odd_scalars, mix_events, change_record, change_record),
    *(replace, replace, put_link, remove_events),
)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases", [4, pytest.param(500, marks=pytest.mark.slow)])
def test_event_files(fuzz, cases, damage, refused, template, tmp_path):
    def play(draw):
        shutil.rmtree(tmp_path / "case", ignore_errors=True)
        folders = [tmp_path / "case" / name for name in draw.choice((["a"], ["a"], ["a", "b"]))]
        for folder in folders:
            shutil.copytree(template, folder)
            for _ in range(draw.choice((1, 1, 2, 3))):
                with contextlib.suppress(IndexError):  # No file is left to change.
                    draw.choice(CHANGES)(draw, damage, folder)
        draws = contextlib.nullcontext()
        if draw.randrange(DRAWN_ONE_IN):
            draws = mock.patch.object(report, "draw")
        error = io.StringIO()
        with draws, contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            code = report.main([str(folder) for folder in folders])
        if code == 2:
            raise refused(error.getvalue().removesuffix("\n"))
        assert (code, error.getvalue()) == (0, "")
        page = tmp_path / "case" / ("a/report.html" if len(folders) == 1 else "comparison.html")
        assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")

    fuzz("events", cases, play, limit_secs=120, expected=("ok",))
