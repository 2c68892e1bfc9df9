"""Optimizers of Keras that make the step of preconditioned gradients."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import kfac

DAMPING = {"damping": 0.02, "invert_every": 3, "estimation_mode": "empirical"}


def compiled(keras, optimizer, sizes=(5, 3), **settings):
    model = keras.dense_model(sizes)
    model.compile(
        optimizer=keras.Kfac(optimizer=optimizer, **DAMPING, **settings), loss=keras.cross_entropy()
    )
    return model


def assert_equal_weights(one, other, atol=0.0):
    for mine, others in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(mine, others, rtol=0, atol=atol)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_momentum_makes_the_step_that_kfac_makes(either, replicas):
    """Each replica has the whole gradient."""
    x, y = either.examples(32)
    expected = compiled(either, None, (3,), learning_rate=0.05, momentum_type="regular")
    either.fit(expected, x, y)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]) if replicas > 1 else None
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = compiled(either, either.keras.optimizers.SGD(0.05, momentum=0.9), (3,))
    either.fit(model, x, y)
    assert_equal_weights(model, expected, atol=1e-6)
    optimizer = model.optimizer
    counters = optimizer.iterations, optimizer.given_optimizer.iterations
    assert [int(np.asarray(counter)) for counter in counters] == [2, 2]


def test_saved_model_goes_on_bit_for_bit(both, tmp_path):
    """With Adam, grafting, and a layer that has no curvature; a NaN changes nothing of Adam."""
    x, y = both.examples(32)
    settings = {"graft": "adam", "fisher_approx": {"plain": "plain"}}
    layers = both.keras.layers
    model = both.seeded(
        both.keras.Sequential(
            [layers.Input((6,)), layers.Dense(4, "tanh", name="plain"), layers.Dense(3)]
        )
    )
    model.compile(
        optimizer=both.Kfac(optimizer=both.keras.optimizers.Adam(0.01), **DAMPING, **settings),
        loss=both.cross_entropy(),
    )
    both.fit(model, x, y)
    model.save(tmp_path / "model.keras")
    loaded = both.keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.optimizer.learning_rate = 0.005
        both.fit(each, x, y)
    assert_equal_weights(loaded, model)
    assert float(np.asarray(loaded.optimizer.given_optimizer.learning_rate)) == np.float32(0.005)
    factors = [name for name in loaded.optimizer.training.store.variables if "/input/cov" in name]
    assert factors
    assert not any("/plain/" in name for name in factors)
    before = [w.copy() for w in (*model.get_weights(), *state_of(model))]
    both.fit(model, np.full_like(x, np.nan), y)
    for old, new in zip(before, (*model.get_weights(), *state_of(model)), strict=True):
        np.testing.assert_array_equal(old, new)


def state_of(model):
    return [np.array(variable) for variable in model.optimizer.given_optimizer.variables]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"learning_rate": 0.1}, ValueError, "learning_rate=0.1 does not go with optimizer='adam"),
        ({"momentum": 0.5}, ValueError, "momentum=0.5 does not go"),
        ({"adaptive": True}, ValueError, "adaptive=True does not go"),
        ({"adapt_damping": True}, TypeError, "adapts no damping"),
        ({"graft": "sgd"}, ValueError, "graft='sgd'"),
        ({"optimizer": None, "learning_rate": 1.0, "graft": "adam"}, ValueError, "without an opt"),
        ({"optimizer": tf.compat.v1.train.AdamOptimizer}, TypeError, "kfac.precondition"),
    ],
)
def test_what_does_not_go(keras3, settings, error, message):
    with pytest.raises(error, match=message):
        keras3.Kfac(**{"optimizer": "adam", **DAMPING, **settings})


def test_a_layer_has_curvature_where_kfac_makes_the_step(keras3):
    with pytest.raises(ValueError, match=r"fisher_approx.* Accepted are"):
        keras3.Kfac(learning_rate=0.1, damping=0.1, fisher_approx={"logits": "plain"})
    assert kfac.keras.Kfac is keras3.Kfac
