import sys

import pytest

from benchmarks import children


def program(code):
    return [sys.executable, "-c", code]


def test_the_last_line_is_what_counts():
    said = program("print('loading'); print('[1, {\"a\": 2.5}]')")
    assert children.run(said, "talk") == 'loading\n[1, {"a": 2.5}]\n'
    assert children.read_json(said, "talk") == [1, {"a": 2.5}]


def test_programs_start_in_the_root_of_the_project():
    there = children.run(program("import os; print(os.path.isdir('benchmarks'))"), "look")
    assert there == "True\n"


def test_failures_show_what_the_program_said():
    with pytest.raises(children.ChildError, match=r"(?s)Could not time it; .* said:.*out of luck"):
        children.read_json(program("raise SystemExit('out of luck')"), "time it")


def test_what_takes_too_long_is_ended():
    with pytest.raises(SystemExit, match=r"Could not wait in 0 s\."):
        children.run(program("import time; time.sleep(100)"), "wait", seconds=0.1)
