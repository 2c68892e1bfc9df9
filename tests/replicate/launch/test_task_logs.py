import re

import pytest

from replicate.launch import TaskLogs

CHATTER = "I0000 00:00:1795519856.354936   19876 port.cc:153] oneDNN custom operations are on."


@pytest.fixture
def logs(tmp_path, recorder):
    with TaskLogs(str(tmp_path / "new" / "logs"), recorder) as logs:
        yield logs


def lines_of(logs, name):
    with open(logs.path(name)) as file:
        return file.read().splitlines()


def test_a_file_has_all_lines_and_the_display_those_of_the_program(logs, recorder):
    logs.line("worker 0", CHATTER, is_error=True)
    logs.line("worker 0", "a warning", is_error=True)
    logs.line("worker 0", CHATTER)
    logs.line("ps 0", "é")
    assert recorder.lines == [
        ("worker 0", "a warning", True),
        ("worker 0", CHATTER, False),
        ("ps 0", "é", False),
    ]
    assert logs.path("worker 0").endswith("/new/logs/worker_0.log")
    header, *kept = lines_of(logs, "worker 0")
    assert re.fullmatch(r"# launched at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", header)
    assert kept == [CHATTER, "a warning", CHATTER]
    assert lines_of(logs, "ps 0")[1:] == ["é"]


def test_messages_of_several_lines_are_followed_in_each_task(logs, recorder):
    node = "\t [[{{node loss}}]]"
    logs.line("worker 0", CHATTER, is_error=True)
    logs.line("ps 0", node, is_error=True)
    logs.line("worker 0", node, is_error=True)
    assert recorder.lines == [("ps 0", node, True)]


def test_lines_of_the_launcher_and_bars_pass(logs, recorder, tmp_path):
    logs.line("launch", CHATTER, is_error=True)
    logs.bar("chief 0", "1%")
    assert recorder.lines == [("launch", CHATTER, True)]
    assert recorder.bars == [("chief 0", "1%")]
    assert list(tmp_path.iterdir()) == [], "no task has printed"


def test_a_second_launch_adds_to_the_files(logs, recorder, tmp_path):
    logs.line("ps 0", "first")
    with TaskLogs(str(tmp_path / "new" / "logs"), recorder) as again:
        again.line("ps 0", "second")
    kept = lines_of(logs, "ps 0")
    assert (kept[1], kept[3]) == ("first", "second")


def test_a_failure_is_reported_with_the_last_lines_of_its_errors(logs, recorder):
    for text in ("1", "2", CHATTER, "  ^^^", "3", "", "4"):
        logs.line("worker 0", text, is_error=True)
    logs.line("worker 0", "printed")
    recorder.lines.clear()
    logs.report_failures(["worker 0", "ps 0"])
    path = logs.path
    assert recorder.lines == [
        (
            "launch",
            f"worker 0 has failed; {path('worker 0')} has all that it printed. Its last lines:",
            True,
        ),
        ("worker 0", "2", True),
        ("worker 0", "3", True),
        ("worker 0", "4", True),
        ("launch", f"ps 0 has failed; {path('ps 0')} has all that it printed", True),
    ]


def test_all_lines_are_shown_if_no_file_can_be_written(tmp_path, recorder):
    (tmp_path / "file").touch()
    with TaskLogs(str(tmp_path / "file"), recorder) as logs:
        logs.line("ps 0", "first")
        logs.line("ps 0", CHATTER, is_error=True)
        logs.report_failures(["ps 0"])
    warning = f"the logs are not kept: {tmp_path}/file/ps_0.log: File exists"
    assert recorder.lines == [
        ("launch", warning, True),
        ("ps 0", "first", False),
        ("ps 0", CHATTER, True),
        ("launch", "ps 0 has failed. Its last lines:", True),
        ("ps 0", CHATTER, True),
    ]


def test_a_full_disk_does_not_end_the_job(recorder):
    with TaskLogs("/dev", recorder) as logs:
        logs.path = lambda name: "/dev/full"
        logs.line("ps 0", "first")
        logs.line("ps 0", "second")
    assert recorder.lines == [
        ("launch", "the logs are not kept: /dev/full: No space left on device", True),
        ("ps 0", "first", False),
        ("ps 0", "second", False),
    ]
