import os
import sys

import pytest

from replicate.launch.local_backend import LocalProcess
from replicate.launch.output_streams import LineSplitter, OutputStreams


@pytest.mark.parametrize(
    ("pieces", "lines", "bar", "rest"),
    [
        (["a\nb\n"], ["a", "b"], "", []),
        (["a", "b\n", "c"], ["ab"], "", ["c"]),
        (["a\r\nb\r", "\nc\n"], ["a", "b", "c"], "", []),
        (["\r 1%", "\r 2%  "], [], " 2%", [" 2%  "]),
        (["\r 1%", "\r 2%\n"], [" 2%"], "", []),
        (["\r 1%", "a line\n"], ["a line"], " 1%", []),
        (["\r 1%", "a ", "line\n", "\r 2%"], ["a line"], " 2%", [" 2%"]),
        (["\r 1%", "\nnext"], [" 1%"], "", ["next"]),
        (["old\rnew\n"], ["new"], "", []),
        (["\r\rx"], [], "x", ["x"]),
        (["\r 1%", "\r   ", "\r"], [], "", []),
        (["\xe4".encode()[:1], "\xe4".encode()[1:] + b"\n", b"\xff\n"], ["\xe4", "\ufffd"], "", []),
    ],
)
def test_splitter_separates_lines_progress_bar_and_rest(pieces, lines, bar, rest):
    splitter = LineSplitter()
    got = []
    for piece in pieces:
        got += splitter.feed(piece if isinstance(piece, bytes) else piece.encode())
    assert got == lines
    assert splitter.bar == bar
    assert splitter.rest() == rest
    assert splitter.rest() == []
    assert splitter.bar == ""


def run(program, recorder, **settings):
    process = LocalProcess([sys.executable, "-I", "-c", program], os.environ, **settings)
    with OutputStreams(recorder) as outputs:
        outputs.add("worker 0", process)
        while process.poll() is None:
            outputs.show(0.1)
        outputs.finish(process)


def test_all_lines_of_both_streams_are_shown(recorder):
    program = """
import sys
print("error", file=sys.stderr)
for number in range(20000):
    print(number)
print("end", end="")
"""
    run(program, recorder)
    assert [line for line in recorder.lines if line[2]] == [("worker 0", "error", True)]
    numbers = [text for text in recorder.of("worker 0") if text != "error"]
    assert numbers == [*map(str, range(20000)), "end"]


def test_progress_bar_is_shown_separately_from_lines(recorder):
    program = r"""
import sys, time
for text in ("\r 1%", "\r 2%", "a warning\n", "\r100%\n"):
    sys.stderr.write(text)
    sys.stderr.flush()
    time.sleep(0.05)
"""
    run(program, recorder, bar_columns=70)
    assert recorder.of("worker 0") == ["a warning", "100%"]
    assert recorder.bars[0] == ("worker 0", " 1%")
    assert recorder.bars[-1] == ("worker 0", "")
    assert ("worker 0", " 2%") in recorder.bars


def test_a_child_that_left_the_group_does_not_delay_the_end(recorder, end_later, monkeypatch):
    monkeypatch.setattr("replicate.launch.output_streams._MAX_WAIT_SECS", 0.2)
    program = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         start_new_session=True)
print(child.pid)
"""
    run(program, recorder)
    (pid,) = recorder.of("worker 0")
    end_later(int(pid))
