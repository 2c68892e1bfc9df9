import types

import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import CategoricalLogitsNegativeLogProbLoss
from kfac.protocols import WORKERS
from kfac.registration.loss_table import LossTable
from kfac.registration.scope import RegistrationScope

v1 = tf.compat.v1
LOGITS = np.random.RandomState(0).randn(64, 5)


def register(table, name=None, coeff=1.0, reuse=False, seed=None, logits=((0.0, 0.0),)):
    name = table.resolve_name(name, coeff, reuse)
    targets = tf.zeros([len(logits)], tf.int64)
    loss = CategoricalLogitsNegativeLogProbLoss(tf.constant(logits), targets, name=name)
    table.add(loss, coeff, seed)
    return name


def test_unnamed_losses_get_free_names(graph):
    table = LossTable(RegistrationScope())
    register(table, "loss_1")
    assert [register(table), register(table)] == ["loss_0", "loss_2"]


def test_unknown_name_under_reuse(graph):
    table = LossTable(RegistrationScope())
    with pytest.raises(KeyError, match=r"no loss of that name .*none \(.*graph_layer_collection"):
        register(table, "a", reuse=True)
    register(table, "b")
    with pytest.raises(KeyError, match=r"no loss of that name .*Registered are: b\. Register it"):
        register(table, "a", reuse=True)


def test_errors(graph):
    table = LossTable(RegistrationScope())
    for coeff in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"It must be > 0"):
            register(table, "a", coeff=coeff)
    for target, coeff in (("data", "half"), ("both", "off")):
        with pytest.raises(ValueError, match=r"Cannot evaluate losses: target_mode="):
            table.evaluate(target, coeff, 0)


@pytest.mark.parametrize("target_mode", ["data", "sample"])
def test_roots_of_weights_go_with_roots_of_coefficients(graph, session, target_mode):
    table = LossTable(RegistrationScope())
    weights = tf.constant([4.0, 0.0])
    logits, targets = tf.zeros([2, 2]), tf.constant([0, 1])
    loss = CategoricalLogitsNegativeLogProbLoss(logits, targets, name="a", weights=weights)
    table.add(loss, 9.0, None)
    values = [table.evaluate(target_mode, mode, 0)[0] for mode in ("regular", "sqrt", "off")]
    np.testing.assert_allclose(session.run(values), np.log(2) * np.array([36, 6, 4]), rtol=1e-6)


def table_of(*losses):
    """Registers losses (name, tower, seed) of the same logits."""
    table = LossTable(RegistrationScope())
    for name, tower, seed in losses:
        register(table, name, reuse=tower > 0, seed=seed, logits=LOGITS)
    return table


def test_samples_differ_by_loss_tower_and_step_only(graph, session):
    table = table_of(("a", 0, None), ("a", 1, None), ("b", 0, None))
    first = session.run(table.evaluate("sample", "off", 0))
    again = session.run(table.evaluate("sample", "off", 0))
    later = session.run(table.evaluate("sample", "off", tf.constant(1, tf.int64)))
    assert first == again
    assert len({*first, *later}) == 6


def test_towers_of_workers_are_numbered_through(graph):
    two = table_of(("a", 0, None), ("a", 1, None)).entries["a"]
    assert [two.source(tower) for tower in (0, 1)] == ["a/0", "a/1"]
    one = table_of(("a", 0, None)).entries["a"]
    v1.add_to_collection(WORKERS, types.SimpleNamespace(rank=1, size=2))
    assert one.source(0) == "a/1"


def test_equal_seeds_tie_samples_together(graph, session):
    table = table_of(("a", 0, 5), ("b", 0, 5))
    a, b = session.run(table.evaluate("sample", "off", 0))
    assert a == b


def test_samples_differ_by_loss_tower_and_run_without_a_step(graph, session):
    values = table_of(("a", 0, 5), ("a", 1, 5), ("b", 0, None)).evaluate("sample", "off", None)
    assert len({*session.run(values), *session.run(values)}) == 6


@pytest.mark.parametrize(("seed", "graph_seed"), [(5, None), (None, 3)])
def test_samples_without_a_step_repeat_with_a_seed(seed, graph_seed):
    def draw():
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(graph_seed)
            values = table_of(("a", 0, seed)).evaluate("sample", "off", None)
            return [session.run(values) for _ in range(2)]

    assert draw() == draw()
