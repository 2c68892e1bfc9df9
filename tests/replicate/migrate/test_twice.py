"""Rewriting twice changes nothing: over all examples, and over programs put together at random."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicate.migrate.files import find_files
from replicate.migrate.program import Programs, first_lines
from replicate.migrate.rewrite import changes_of
from replicate.migrate.uses import Module

ROOT = Path(__file__).parents[3]
EXAMPLES = [
    pytest.param(
        path,
        id=str(path.relative_to(ROOT)),
        marks=[pytest.mark.slow] if number % 6 else [pytest.mark.broad] if number % 24 else [],
    )
    for number, path in enumerate(find_files([str(ROOT / "examples")]))
]


def rewritten(text, towers):
    """Returns the new text, as the command makes it of one file."""
    module = Module(text)
    edits = list(changes_of(module, towers).edits)
    edits += first_lines(module, Programs({"main": module}).needs("main"), edits)
    return module.source.edited(edits)


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples(path):
    once = rewritten(path.read_text(), towers=True)
    compile(once, path.name, "exec")
    assert rewritten(once, towers=True) == once


IMPORTS = [
    "import os, tensorflow as tf",
    "from tensorflow.contrib import slim, layers as tf_layers, learn",
    "import tensorflow.contrib.data as data",
    "from tensorflow import estimator, app",
    "from tensorflow.contrib.training import HParams",
    "slim = tf.contrib.slim",
    "est = tf.estimator  # short",
    "import tensorflow.contrib.slim",
    "try:\n    from tensorflow.contrib import kfac\nexcept ImportError:\n    import kfac",
]
USES = [
    "x = tf.estimator.DNNClassifier([1], [])",
    "def f(mode=tf.estimator.ModeKeys.TRAIN):\n    import tensorflow.contrib.opt as opt\n"
    "    return opt.ModelAverageOptimizer(tf.train.AdamOptimizer(1))",
    "slim.conv2d(data.Dataset, slim.nonsense)",
    "with tf.Session() as replicate: learn.Experiment(HParams(a=[1]))",
    "estimator.Estimator(f, config=est.RunConfig())",
    "tensorflow.contrib.slim.flatten(tf_layers.conv2d)",
    "kfac.KfacOptimizer(1)",
    "if __name__ == '__main__':\n    tf.app.run()",
    "'''tf.contrib'''  # tf.contrib",
]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(IMPORTS), unique=True),
    st.lists(st.sampled_from(USES), unique=True),
    st.sampled_from(["\n", "\n\n", "\r\n"]),
    st.booleans(),
)
def test_random_programs(imports, uses, newline, towers):
    text = newline.join(["import tensorflow as tf", *imports, *uses, ""])
    if newline == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    once = rewritten(text, towers)
    compile(once, "program", "exec")
    assert rewritten(once, towers) == once
    assert once.count("\r") == (once.count("\n") if newline == "\r\n" else 0)
