"""Summaries and lines of a training run."""

import glob
import re

import numpy as np
import pytest
import tensorflow as tf

import replicate
from examples.slim.image_classifier import reports, training
from examples.slim.image_classifier.summaries import add_gradient_summaries, writer_hooks

v1 = tf.compat.v1


def tags(folder):
    found = set()
    for path in glob.glob(f"{folder}/events.*.summaries"):
        for event in v1.train.summary_iterator(path):
            found |= {value.tag for value in event.summary.value}
    return found


def test_event_file(fake_network, batch, training_settings, tmp_path):
    settings = training_settings(
        2, model_name="two_heads", summarize_gradients=True, save_summaries_secs=0.001
    )
    estimator = replicate.Estimator(
        training.model_fn,
        str(tmp_path),
        replicate.RunConfig(progress="off", save_summary_steps=None),
        settings,
    )
    estimator.train(lambda: tuple(map(tf.constant, batch)), max_steps=2)
    found = tags(tmp_path)
    assert {
        "activations/Logits",
        "sparsity/Logits",
        "learning_rate",
        "total_loss",
        "net/logits/weights",
        "net/mean",
        "losses/clone_0/softmax_cross_entropy_loss/value",
        "losses/clone_0/aux_loss/value",
        "gradients/net/logits/weights_norm",
    } <= found
    assert not [tag for tag in found if tag.startswith("losses/clone_1/")], (
        "of the first clone only"
    )
    assert writer_hooks(str(tmp_path / "none"), 0) == []
    assert not (tmp_path / "none").exists()


def test_gradient_norm_of_sparse_gradients(graph, evaluate):
    variable = v1.get_variable("embedding", [4, 2])
    sparse = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([1]), tf.constant([4, 2]))
    add_gradient_summaries([(sparse, variable)])
    summary = v1.Summary.FromString(evaluate(v1.summary.merge_all()))
    values = {value.tag: value for value in summary.value}
    assert values["gradients/embedding_norm"].simple_value == pytest.approx(np.hypot(3, 4))
    assert values["gradients/embedding"].histo.num == 2


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
