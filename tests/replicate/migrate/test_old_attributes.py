"""Attributes that objects lost, and functions that took more: as they are written today."""

from replicate.migrate.command import rewrite_files
from replicate.migrate.rewrite import changes_of
from replicate.migrate.uses import Module

PROGRAM = """
import json
import random
import urllib
import xml.etree.ElementTree as tree
from random import shuffle
import numpy as np

table = {"a": 1, 2: 3}
{marked}
{marked}
root = tree.fromstring("<a><b/><b/></a>")
{marked}
try:
    raise ValueError("told")
except ValueError as error:
    {marked}
array = np.arange(6, dtype=np.float32).reshape(2, 3)
{marked}
{marked}
{marked}
{marked}
shuffle([1])
{marked}
{marked}
{marked}
text = table.message, "x".decode("utf-8"), table.append
"""
LINES = """\
found = table.has_key("a") and not table.has_key(3), [k for k in table if table.has_key(k)]
found = "a" in table and 3 not in table, [k for k in table if k in table]
kept = table.has_key, table.has_key(table.has_key("b")), -table.has_key(2)
kept = old_attribute(table, "has_key"), table.__contains__("b" in table), -(2 in table)
tags = len(root.getchildren()), [each.tag for each in root.getiterator("b")]
tags = len(list(root)), [each.tag for each in root.iter("b")]
told = error.message, f"{error.message}"
told = old_attribute(error, "message"), f"{old_attribute(error, 'message')}"
array.itemset((1, 2), 7)
old_attribute(array, "itemset")((1, 2), 7)
width, array.dtype = array.ptp(), np.int32
width, array.dtype = old_attribute(array, "ptp")(), np.int32
read = json.loads("[1]", encoding="utf-8"), json.loads("[2]")
read = files.json_loads("[1]", encoding="utf-8"), json.loads("[2]")
drawn = random.sample({4}, 1), random.randint(6 / 2, 3), random.randint(1, 1)
drawn = python.sample({4}, 1), python.randint(6 / 2, 3), random.randint(1, 1)
random.shuffle([1], random.random)
python.shuffle([1], random.random)
opened = open(__file__, "rU"), open(__file__, mode="rb")
opened = open(__file__, "r"), open(__file__, mode="rb")
quoted = urllib.quote("a b"), np.asfarray([1]), np.lib.pad([1], 1, "edge")
quoted = parse.quote("a b"), arrays.asfarray([1]), np.pad([1], 1, "edge")
""".splitlines()


def with_lines(lines):
    text = PROGRAM
    for line in lines:
        text = text.replace("{marked}", line, 1)
    return text


def test_attributes_and_changed_functions_are_written_and_run():
    old, new = with_lines(LINES[::2]), with_lines(LINES[1::2])
    module = Module(old)
    changes = changes_of(module)
    got = module.source.edited(changes.edits)
    body = got[got.index("table =") :]
    assert (body, changes.left) == (new[new.index("table =") :], ())
    names = {"__file__": __file__}
    exec(got.rpartition("text =")[0], names)
    for each in names["opened"]:
        each.close()
    assert names["found"] == (True, ["a", 2])
    assert (names["tags"], names["told"], names["width"]) == ((2, ["b", "b"]), ("told",) * 2, 7.0)
    assert (names["read"], names["drawn"]) == (([1], [2]), ([4], 3, 1))


def test_pandas_python_2_and_methods_of_the_program_decide(tmp_path):
    (tmp_path / "frames.py").write_text(
        "import pandas\ndef f(a, b):\n    a.append(b); b = a.append(b)\n    a.sort(); a.sort('x')\n"
        "    return a.ix[1], a.ix, b.get_value(1, 2), a.has_key(3), a.tostring()\n"
    )
    (tmp_path / "plain.py").write_text(
        "class Own:\n    def has_key(self, key): pass\n    def tostring(self): pass\n"
        "def f(a):\n    return a.append(1), a.get_value(1), a.text.decode('utf-8')\n"
    )
    (tmp_path / "old.py").write_text(
        "import pickle\nprint 1\npickle.dump(1, x); pickle.load(x); pickle.load(x, encoding='a')\n"
        "x.decode('utf-8'); x.decode(y)\n"
    )
    found = {each.path.stem: each for each in rewrite_files(sorted(tmp_path.iterdir()))}
    assert [each.left for each in found.values()] == [(), (), ()]
    assert found["plain"].new == found["plain"].old
    assert found["frames"].new.text.splitlines()[3:] == [
        '    a.append(b); b = old_attribute(a, "append")(b)',
        "    a.sort(); old_attribute(a, \"sort\")('x')",
        '    return old_attribute(a, "ix")[1], a.ix, old_attribute(b, "get_value")(1, 2), '
        'old_attribute(a, "has_key")(3), a.tostring()',
    ]
    assert found["old"].new.text.splitlines()[-2:] == [
        "files.pickle_dump(1, x); files.pickle_load(x); pickle.load(x, encoding='a')",
        "old_attribute(x, \"decode\")('utf-8'); x.decode(y)",
    ]
