"""Runs the example programs inside the test process, so that TensorFlow is imported once."""

import runpy
import sys
from typing import NamedTuple

import pytest
from absl.testing import flagsaver

from examples import cli  # noqa: F401  # Its flag --help outlives the programs that use it.


class Done(NamedTuple):
    """What a program ended with: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_program(monkeypatch, capsys):
    """Runs `examples.<name>` as `python -m` does; the flags that it defines are gone afterwards."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        with flagsaver.flagsaver(), pytest.raises(SystemExit) as end:
            runpy.run_module(f"examples.{name}", run_name="__main__", alter_sys=True)
        return Done(end.value.code, *capsys.readouterr())

    return run
