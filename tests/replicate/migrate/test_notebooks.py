"""Code cells of a notebook are one module; everything else in it stays."""

import json

import pytest

from replicate.migrate.command import rewrite_files
from replicate.migrate.notebooks import NotebookError, read_notebook

CELLS = [
    ("markdown", "# tf.contrib.slim"),
    ("code", "%matplotlib inline\n!pip install tensorflow==1.15\nimport tensorflow as tf"),
    ("code", "%%bash\nimport tensorflow as tf"),
    (
        "code",
        "files = !ls\ntf.estimator?\nif files:\n    %time x = 1\nmode = tf.estimator.ModeKeys.EVAL",
    ),
    ("code", "print 'Python 2'"),
    ("code", "text = '''\n% tf.estimator\n'''\ntf.contrib.bigtable.gan_model(tf.nn.relu)\n"),
]
NEW = [
    "%matplotlib inline\n!pip install tensorflow==1.15\nimport tensorflow.compat.v1 as tf\n"
    "import replicate\n\ntf.disable_v2_behavior()",
    CELLS[2][1],
    CELLS[3][1].replace("= tf.estimator", "= replicate"),
    *(text for _, text in CELLS[4:]),
]


def notebook(indent, ascii_only, end, as_text=False):
    cells = [
        {"cell_type": kind, "source": text if as_text else text.splitlines(keepends=True), "é": 0}
        for kind, text in CELLS
    ]
    found = {"metadata": {}, "cells": cells, "nbformat": 4}
    return json.dumps(found, indent=indent, ensure_ascii=ascii_only) + end


@pytest.mark.parametrize("form", [(2, True, ""), (None, False, "\n"), (4, False, "", True)])
def test_cells_change_and_the_rest_stays(tmp_path, form):
    raw = notebook(*form)
    path = tmp_path / "a.ipynb"
    path.write_text(raw)
    (result,) = rewrite_files([path])
    old, new = json.loads(raw), json.loads(result.new.text)
    codes = ["".join(each["source"]) for each in new["cells"][1:]]
    assert codes == NEW
    for before, after in zip(old["cells"], new["cells"], strict=True):
        after["source"] = before["source"]
    assert json.dumps(new) == json.dumps(old)
    assert [each[:2] for each in result.left] == [
        ("cell 5:4:1", "tf.contrib.bigtable.gan_model"),
        ("cell 4", ""),
    ]
    assert result.left[1][2].startswith("The cell is not Python (Missing parentheses")
    path.write_text(result.new.text)
    assert rewrite_files([path])[0].new.text == result.new.text


def of_codes(*codes):
    return json.dumps({"cells": [{"cell_type": "code", "source": code} for code in codes]})


@pytest.mark.parametrize(
    "code",
    [
        "#@ cell 1\nz = 3",
        "s = '#@ line 0'\n!ls",
        "s = '''\n#@ cell 1\n#\npass  #@ line 0\n'''\n!ls",
    ],
)
def test_no_text_of_a_program_is_taken_for_a_mark(tmp_path, code):
    path = tmp_path / "a.ipynb"
    first = "%magic\nimport tensorflow as tf"
    last = "#@ cell 2\ntf.contrib.bigtable"
    path.write_text(of_codes(first, code, last))
    (result,) = rewrite_files([path], in_new=True)
    new = f"{first.replace('tensorflow', 'tensorflow.compat.v1')}\n\ntf.disable_v2_behavior()"
    assert result.new.text == of_codes(new, code, last)
    assert result.left[0][0] == "cell 3:2:1"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (None, "its source is null, not text"),
        (["x", 1], "its source is"),
        ("\ud800", "surrogates not allowed"),
        ("x = 1\0", "null bytes"),
        ("x = " + "-" * 20_000 + "1", "it is nested too deeply"),
        ("x = " + " and ".join("a" * 20_000), "it is nested too deeply"),
    ],
)
def test_bad_cell_stays_and_the_others_change(tmp_path, source, told):
    path = tmp_path / "a.ipynb"
    path.write_text(of_codes(source, "import tensorflow as tf"))
    (result,) = rewrite_files([path])
    assert json.loads(result.new.text)["cells"][0]["source"] == source
    assert "tf.disable_v2_behavior()" in result.new.text
    assert told in result.left[0][2]
    result.new.text.encode()


def test_notebook_without_changes_stays_byte_for_byte(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells": [ {"cell_type":"code", "source":[ "x = 1" ]} ] }')
    (result,) = rewrite_files([path])
    assert result.new == result.old


@pytest.mark.parametrize("raw", ["{", "[]", '{"cells": 3}', '{"worksheets": []}'])
def test_other_files_are_refused(raw):
    with pytest.raises(NotebookError, match="it is no notebook of version 4: "):
        read_notebook(raw)
