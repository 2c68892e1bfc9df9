"""The lines of a training run."""

import re

import tensorflow as tf

from examples.slim.image_classifier import reports

v1 = tf.compat.v1


def test_a_line_for_every_second_step(graph, capsys):
    v1.get_variable("w", [1024, 256])
    v1.get_variable("b", [5])
    step = v1.train.create_global_step()
    made = v1.assign_add(step, 1).read_value()
    lines = reports.StepLines(made, tf.constant(0.5), tf.constant(0.01), 2, rows=64)
    with v1.train.MonitoredSession(hooks=[lines]) as session:
        for _ in range(5):
            session.run(made)
    model, *found = capsys.readouterr().out.splitlines()
    assert model == "model           2 variables, 262,149 parameters, 1.00 MiB"
    assert [line.split()[1] for line in found] == ["2", "4"]
    pattern = r"step 4          loss 0.5000   rate 0.01   \d+\.\d{3} s/step   [\d,]+ images/s"
    assert re.fullmatch(pattern, found[1])
