"""Programs of Python 2 do what they did: recognized, translated, and with their own lines."""

import ast
import sys

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import __main__ as command_line
from replicate.compat import python2
from replicate.compat.python2 import loading, translation
from replicate.compat.python2.keywords import without_new_keywords
from replicate.compat.python2.recognition import is_only_python3, sign_of_python2
from replicate.compat.source_code import compiled

needs_fissix = pytest.mark.skipif(not translation.is_installed(), reason="needs fissix")

PROGRAM = '''# -*- coding: utf-8 -*-
"""A program."""
import sys
reload(sys)
sys.setdefaultencoding("utf-8")
import cPickle as pickle, ConfigParser
from urllib import urlopen, quote
import numpy as np
import part.model as model

class Steps(object):
    __metaclass__ = type
    def next(self):
        return 1

def mean((a, b), mode=0777):
TABif a:
TAB    return a / b
        return mode

print "division", 7 / 2, mean((9, 4)), 1 / 2.0, -7 / 2, 7 / 2 * 3, 2 * 7 / 4
print >>sys.stderr, "told"
x = 10
x /= 4
print x, `x`, 10L, map(lambda (k, v): k + v, {1: 2}.items())
for k, v in {"a": 1}.iteritems():
    print k, v,
print
half = np.arange(4)
same = half
half /= 2
print same, round(2.5), cmp(1, 2), isinstance("a", basestring), range(3)[0], zip([1], [2])
try:
    raise ValueError, "bad"
except ValueError, e:
    print e.message, "abc".decode("utf-8"), Steps().next()
print sorted([3, 1, 2], cmp=lambda a, b: b - a), model.half(5), {1: 2}.keys()[0]
exec "y = 3"
print y, quote("a b"), unicode("z"), 07 <> 8
model.fail()
'''.replace("TAB", "\t")
PRINTED = """division 3 2 0.5 -4 9 3
2 2 10 [3]
a 1
[0 0 1 1] 3.0 -1 True 0 [(1, 2)]
bad abc 1
[3, 2, 1] 2 1
3 a%20b z True
failing 4
"""
LAST = len(PROGRAM.splitlines())
MODEL = """import tools
from tools import half

def fail():
    if half(9) == tools.half(8):
        print 'failing', half(9)
        raise KeyError('x')
"""


@needs_fissix
def test_program_prints_what_it_printed_and_fails_in_its_own_line(tmp_path, run_python):
    (tmp_path / "program.py").write_text(PROGRAM)
    package = tmp_path / "part"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(MODEL)
    (package / "tools.py").write_text("def half(x):\n    return x / 2\n")
    for _ in range(2):  # The second time from compiled code.
        done = run_python("import replicate.compat as c; c.run('program.py')", folder=tmp_path)
        assert done.out.replace(" \n", "\n") == PRINTED, done.err
        assert f'"{tmp_path}/program.py", line {LAST}, in <module>' in done.err
        assert f'"{package}/model.py", line 7, in fail' in done.err
        assert f"{tmp_path}/program.py is of Python 2 (line " in done.err
        assert "told\n" in done.err
    assert not list(package.glob("__pycache__/model.cpython-???.pyc"))


SIGNS = {
    "for i in xrange(3): pass": "xrange in line 1",
    "x = [long(1)]": "long in line 1",
    "x = sorted([1], key=intern)": "intern in line 1",
    "def cmp(a, b): pass\nlong = int\nx = cmp(long(1), 2)": None,
    "import os\nimport cPickle": "cPickle in line 2",
    "try:\n    xrange\nexcept NameError:\n    xrange = range\nxrange(3)": None,
    "from six.moves import xrange\nxrange(3)": None,
    "import sys\nif sys.version_info[0] < 3:\n    text = unicode\n": None,
    "try:\n    import cPickle\nexcept ImportError:\n    pass": None,
    "from a import *\nxrange(3)": None,
    "def f(unicode):\n    return unicode": None,
    "text = PY2 and unicode": None,
    "print(3 / 2)": None,
    "len(map(int, x))": "a list of map, zip or filter in line 1",
    "def f(x):\n  sizes = map(int, x)\n  return sizes[0]": "a list of map, zip or filter in line 3",
    "sizes = map(int, x)\nsizes = list(sizes)\nsizes[0]": None,
    "from builtins import map\nmap(int, x)[0]": None,
}


@pytest.mark.parametrize("source", SIGNS)
def test_signs_of_python_2(source):
    assert sign_of_python2(ast.parse(source), "program.py") == SIGNS[source]


@pytest.mark.parametrize(
    ("source", "is_new"),
    [
        ("f'{x}'", True),
        ("def f(a: int): pass", True),
        ("def f(*, a): pass", True),
        ("print(1, file=f)", True),
        ("class A(metaclass=M): super().a", True),
        ("raise A from b", True),
        ("print(1)", False),
    ],
)
def test_signs_of_python_3(source, is_new):
    assert is_only_python3(ast.parse(source)) == is_new


def test_division_by_kinds_of_operands(evaluate, graph):
    class Old:
        def __div__(self, other):
            return "div", other

        def __rdiv__(self, other):
            return "rdiv", other

    assert python2.old_div(7, -2) == -4
    assert python2.old_div(True, 2) == 0
    assert python2.old_div(np.int64(7), 2) == 3
    assert python2.old_div(np.array([7, 8]), np.int32(2)).tolist() == [3, 4]
    assert python2.old_div(np.array([7.0]), 2).tolist() == [3.5]
    assert python2.old_div(Old(), 1) == ("div", 1)
    assert python2.old_div(1, Old()) == ("rdiv", 1)
    whole, real = tf.constant([7, 9]), tf.constant([7.0])
    found = evaluate(
        (
            python2.old_div(whole, 2),
            python2.old_div(20, whole),
            python2.old_div(real, 2),
            python2.old_div(np.float32(7), real),
        )
    )
    assert [each.tolist() for each in found] == [[3, 4], [2, 2], [3.5], [1.0]]
    floats = np.array([1.0, 3.0])
    assert python2.old_idiv(floats, 2) is floats
    assert floats.tolist() == [0.5, 1.5]
    assert [python2.old_round(each) for each in (0.5, 1.5, -2.5, 2.4)] == [1.0, 2.0, -3.0, 2.0]
    assert [python2.old_round(2.675, 1), python2.old_round(0.125, 2)] == [2.7, 0.13]
    assert [python2.cmp(*each) for each in ((1, 2), ("b", "a"), (1, 1))] == [-1, 1, 0]


@needs_fissix
def test_lines_of_a_translation_are_those_of_the_source():
    source = "from urllib import urlopen, quote\ndef f((a, b)):\n    return a\n\n\nx = [\n 1/0]\n"
    found = translation.translated(source)
    tree = ast.parse(found.text)
    translation.renumber(tree, found.lines)
    lines = {type(node).__name__: node.lineno for node in tree.body}
    assert lines == {"ImportFrom": 1, "FunctionDef": 2, "Assign": 6}
    with pytest.raises(translation.NotPython2Error):
        translation.translated("def (:")


@needs_fissix
def test_wrong_sources_are_pythons_own_errors():
    with pytest.raises(SyntaxError, match="expected an indented block"):
        compiled(b"if 1:\nx = 3\n", "program.py")
    text = 'def f():\n\tx = """\n\ty"""\n        return x\n'
    names = {}
    exec(compiled(f"print 'a'\n{text}y = f()\n".encode(), "program.py"), names)
    assert names["y"] == "\n\ty"


def test_without_fissix_its_place_is_told(monkeypatch, capsys):
    monkeypatch.setattr(loading, "is_installed", lambda: False)
    loading._tell.cache_clear()
    with pytest.raises(SyntaxError, match=r"pip install fissix"):
        compiled(b"print 'a'\n", "program.py")
    compiled(b"xrange(3)", "old.py")
    assert "old.py seems to be of Python 2 (xrange in line 1): pip" in capsys.readouterr().err


def test_command_line_has_the_option(monkeypatch):
    calls = []
    monkeypatch.setattr(command_line, "run", lambda *names, **options: calls.append(options))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    command_line.main(["--python2", "program.py"])
    command_line.main(["program.py"])
    assert [each["python2"] for each in calls] == [True, False]


def test_names_that_became_keywords_are_renamed_and_division_stays():
    names = {}
    source = "def f(x, async=2):\n    return x / async\ny = f(3, async=4)  # async\n"
    exec(compiled(source.encode(), "program.py"), names)
    assert names["y"] == 0.75
    assert without_new_keywords("async def f():\n    pass\n") is None
    assert without_new_keywords("x = 'async'\n") is None
