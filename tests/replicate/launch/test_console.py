import contextlib
import io
import os

import pytest

from replicate.launch.console import LAUNCHER, Console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _wide_and_colourful(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_lines_begin_with_the_aligned_name_of_their_task():
    out, err = io.StringIO(), io.StringIO()
    console = Console(["worker 0", "ps 0"], out, err)
    console.line("worker 0", "a")
    console.line("ps 0", "b", is_error=True)
    console.line(LAUNCHER, "c")
    assert out.getvalue() == "worker 0 | a\nlaunch   | c\n"
    assert err.getvalue() == "ps 0     | b\n"


def test_colour_is_used_on_terminals_only_and_not_with_no_color(monkeypatch):
    out, err = io.StringIO(), Terminal()
    console = Console(["ps 0"], out, err)
    console.line("ps 0", "a")
    console.line("ps 0", "b", is_error=True)
    monkeypatch.setenv("NO_COLOR", "1")
    Console(["ps 0"], out, err).line("ps 0", "c", is_error=True)
    assert out.getvalue() == "ps 0   | a\n"
    assert err.getvalue() == "\x1b[33mps 0   |\x1b[0m b\nps 0   | c\n"


@pytest.mark.parametrize("is_error", [False, True])
def test_the_bar_stays_below_the_lines(is_error, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    console = Console(["chief 0"], terminal, terminal)
    console.bar("chief 0", "1%")
    console.line("chief 0", "a line", is_error)
    console.bar("chief 0", "2%")
    lines = terminal.getvalue().replace("\r\x1b[K", "~").replace("\n", "/")
    assert lines == "~chief 0 | 1%~chief 0 | a line/~chief 0 | 1%~chief 0 | 2%"
    console.bar("chief 0", "")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_bar_is_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    console = Console(["chief 0"], terminal, terminal)
    console.bar("chief 0", "x" * 100)
    assert console.bar_columns == 29
    assert len(terminal.getvalue().removeprefix("\r\x1b[K")) == 39


def test_there_is_no_bar_without_a_terminal():
    out, err = Terminal(), io.StringIO()
    console = Console(["chief 0"], out, err)
    console.bar("chief 0", "1%")
    assert console.bar_columns == 0
    assert err.getvalue() == out.getvalue() == ""


def test_a_closed_pipe_is_told_and_written_no_more():
    told = []
    for on_closed_pipe in (lambda: told.append(True), None):
        ours, theirs = os.pipe()
        os.close(ours)
        with open(theirs, "w") as pipe:
            console = Console(["ps 0"], pipe, io.StringIO(), on_closed_pipe)
            with contextlib.nullcontext() if on_closed_pipe else pytest.raises(BrokenPipeError):
                console.line("ps 0", "a")
            console.line("ps 0", "b")
    assert told == [True]
