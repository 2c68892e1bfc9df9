"""Programs of TensorFlow 1 print each log line once, in the format that they had."""

import re

PROGRAM = """
import logging
import sys
import absl.logging
import tensorflow as tf

LOG = logging.getLogger("tensorflow")
ROOT = logging.getLogger()


def to_file(logger, name):
    logger.addHandler(logging.FileHandler(name))


def model_fn(features, labels, mode):
    loss = tf.square(tf.get_variable("w", []))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    train = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def main(argv):
    tf.logging.info("in main")
    logging.info("by root")
    absl.logging.info("by absl")
    data = lambda: tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat()
    tf.estimator.Estimator(model_fn, "model").train(data, steps=3)
    LOG.removeHandler(LOG.handlers[0])
    tf.logging.info("without the handler of TensorFlow")
    absl.logging.get_absl_handler().python_handler.stream = open("absl.log", "w")
    absl.logging.set_stderrthreshold("fatal")
    LOG.addHandler(logging.StreamHandler(sys.stderr))
    tf.logging.info("absl to a file")


if __name__ == "__main__":
    ROOT.setLevel(logging.INFO)
    tf.logging.info("at the level of root")
    ROOT.setLevel(logging.WARNING)
    tf.logging.info("below the level of root")
    tf.logging.set_verbosity(tf.logging.INFO)
    to_file(ROOT, "root.log")
    tf.logging.info("at first")
    ROOT.handlers.clear()
    logging.basicConfig(format="%(name)s|%(message)s", level=logging.ERROR)
    tf.logging.info("by basicConfig")
    ROOT.handlers[0].setLevel(logging.ERROR)
    tf.logging.info("below its level")
    ROOT.handlers[0].addFilter(lambda record: "not" not in record.getMessage())
    tf.logging.error("not by its filter")
    tf.logging.error("by its filter")
    tf.app.run()
"""
LINES = """\
INFO:tensorflow:at the level of root
INFO:tensorflow:at first
tensorflow|by basicConfig
INFO:tensorflow:below its level
ERROR:tensorflow:not by its filter
tensorflow|by its filter
INFO:tensorflow:in main
I program.py] by root
I program.py] by absl
INFO:tensorflow:Graph was finalized.
I program.py] without the handler of TensorFlow
absl to a file
"""


def test_each_log_line_appears_once_on_the_terminal(tmp_path, run_python):
    (tmp_path / "program.py").write_text(PROGRAM)
    runner = "import runpy; runpy.run_module('replicate.compat', None, '__main__', True)"
    done = run_python(runner, "program.py", folder=tmp_path)
    assert done.code == 0, done.err
    lines = [re.sub(r"^(\w)\d{4} .* (\w+\.py):\d+\]", r"\1 \2]", x) for x in done.err.splitlines()]
    expected = LINES.splitlines()
    texts = [re.split(r"[|:\]]", line)[-1].strip() for line in expected]
    assert [line for line in lines if any(line.endswith(text) for text in texts)] == expected
    assert (tmp_path / "root.log").read_text() == "at first\n"
    assert "absl to a file" in (tmp_path / "absl.log").read_text()
