"""Division in translated modules is that of Python 2."""

import pytest

from replicate.compat.python2 import translation
from replicate.compat.source_code import compiled, is_python2

pytestmark = pytest.mark.skipif(not translation.is_installed(), reason="needs fissix")


def run(source):
    names = {}
    exec(compiled(source.encode(), "program.py", python2=True), names)
    return names


def test_division_is_that_of_python_2_where_it_was():
    names = run(
        "a = [7 / 2, 7.0 / 2, float(7) / 2, (1 + 6) / 2 / 2 * 3.0, 8 / 2 / 3]\n"
        "b = [7, 8]\nb[len(b) - 1] /= 3\nb[0] /= 2.0\n"
    )
    assert names["a"] == [3, 3.5, 3.5, 3.0, 1]
    assert names["b"][0] == 3.5
    assert run("from __future__ import division\na = 7 / 2")["a"] == 3.5
    assert run("a = f'{7 / 2}'")["a"] == "3.5"
    assert not is_python2(compiled(b"a = f'{7 / 2}'", "program.py", python2=True))
