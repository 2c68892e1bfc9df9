"""The public names of Keras' optimizers: each works for K-FAC, or one sentence says why not."""

import numpy as np
import pytest

import kfac

NUMBERS = {"learning_rate": 0.1, "damping": 0.02}


def trained(keras, optimizer, steps=1):
    """Returns a compiled model with a hidden layer, after some steps on the same batch."""
    model = keras.dense_model()
    model.compile(optimizer=optimizer, loss=keras.cross_entropy())
    x, y = keras.examples(16)
    keras.fit(model, x, y, epochs=steps)
    return model


def _rate(o):
    o.learning_rate = 0.25
    assert float(o.learning_rate) == pytest.approx(0.25)


def _copy(o):
    assert type(o).from_config(o.get_config()).get_config() == o.get_config()


def _saved(o):
    state = {}
    o.save_own_variables(state)
    assert any("velocity" in name for name in state)
    o.load_own_variables(state)


def _no_gradients(o):
    before = int(o.iterations)
    o.apply_gradients([])
    assert int(o.iterations) == before


def _variables(o):
    o.set_weights([v.numpy() for v in o.variables])
    o.set_weights([np.zeros(1)])


def _own_variable(o):
    assert o.add_variable((2,), name="extra").shape == (2,)


def attribute(name, value):
    return lambda o: setattr(o, name, value)


def build_again(o):
    o.build(o.training.trained.variables)


WORKS = None
INTERFACE = {
    "add_variable": (_own_variable, WORKS),
    "aggregate_gradients": (lambda o: o.aggregate_gradients([]), WORKS),
    "apply": (lambda o: o.apply([]), WORKS),
    "apply ": (lambda o: o.apply([1.0]), "was given 1 gradients for 4 variables"),
    "apply_gradients": (_no_gradients, WORKS),
    "build": (build_again, WORKS),
    "clipnorm": (attribute("clipnorm", 1.0), "clipnorm to 1.0: .* Pass norm_constraint"),
    "clipvalue": (attribute("clipvalue", 1.0), "Pass norm_constraint"),
    "exclude_from_weight_decay": (
        lambda o: o.exclude_from_weight_decay(var_names=["bias"]),
        "after the first step. Call it before",
    ),
    "finalize_variable_values": (lambda o: o.finalize_variable_values([]), WORKS),
    "from_config": (_copy, WORKS),
    "global_clipnorm": (attribute("global_clipnorm", 1.0), "Pass norm_constraint"),
    "gradient_accumulation_steps": (
        attribute("gradient_accumulation_steps", 2),
        "to 2: it was made with None. Pass it when",
    ),
    "jit_compile": (attribute("jit_compile", True), "Pass jit_compile=True to the model's"),
    "learning_rate": (_rate, WORKS),
    "loss_scale_factor": (attribute("loss_scale_factor", 2.0), "Scale the loss function itself"),
    "save_own_variables": (_saved, WORKS),
    "set_weights": (_variables, "to 1 arrays: it has"),
    "stateless_apply": (lambda o: o.stateless_apply([], [], []), "not supported with the Tensor"),
    "update_step": (
        lambda o: o.update_step(None, o.training.trained.variables[0], 0.1),
        "cannot change .*kernel.* alone",
    ),
    "use_ema": (attribute("use_ema", True), "keeps no averages of the weights"),
}
"""By public name of the base class: a use of it, and the sentence that it ends in."""

ALIKE = {
    *("add_optimizer_variables", "add_variable_from_reference", "assign", "assign_add"),
    *("assign_sub", "built", "compute_gradients", "ema_momentum", "ema_overwrite_frequency"),
    *("get_config", "iterations", "load_own_variables", "lr", "minimize", "name", "scale_loss"),
    *("variables", "weight_decay"),
}
"""Names that go with the others, or that the other tests of this package use."""


def test_public_names_of_keras_work_or_say_why_not(both):
    optimizer = both.Kfac(**NUMBERS)
    trained(both, optimizer)
    base = both.keras.optimizers.Optimizer
    sgd = both.keras.optimizers.SGD()
    names = {name for name in {*dir(base), *vars(sgd)} if not name.startswith("_")}
    assert names - {"nesterov", "momentum"} <= {*INTERFACE, *ALIKE}
    for name, (use, sentence) in INTERFACE.items():
        if name.strip() not in names:
            continue
        if sentence is WORKS:
            use(optimizer)
            continue
        with pytest.raises((ValueError, NotImplementedError), match=sentence):
            use(optimizer)


def test_excluded_variables_do_not_decay(both):
    plain = trained(both, both.Kfac(**NUMBERS)).get_weights()
    first = [w.copy() for w in both.dense_model().get_weights()]
    for by_name in (True, False):
        model, optimizer = both.dense_model(), both.Kfac(**NUMBERS, weight_decay=0.5)
        hidden, last = model.layers
        if by_name:
            optimizer.exclude_from_weight_decay(var_names=["bias", f"{hidden.name}/"])
        else:
            optimizer.exclude_from_weight_decay([*hidden.trainable_variables, last.bias])
        model.compile(optimizer=optimizer, loss=both.cross_entropy())
        both.fit(model, *both.examples(16))
        expected = [*plain[:2], plain[2] - 0.1 * 0.5 * first[2], plain[3]]
        for found, value in zip(model.get_weights(), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=0, atol=1e-5)


def test_wrong_exclusions_and_an_adaptive_rate_are_errors(either):
    optimizer = either.Kfac(adaptive=True, weight_decay=0.1)
    with pytest.raises(TypeError, match=r"var_names='bias'. Pass a list"):
        optimizer.exclude_from_weight_decay(var_names="bias")
    with pytest.raises(ValueError, match=r"'\(', which is no regular expression"):
        optimizer.exclude_from_weight_decay(var_names=["("])
    with pytest.raises(ValueError, match="with adaptive=True each step computes it"):
        optimizer.learning_rate = 0.1
    optimizer = either.Kfac(**NUMBERS, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    with pytest.raises(ValueError, match="cannot be the optimizer of an Estimator: write a model"):
        optimizer.for_estimator()


def test_schedule_that_is_set_later_is_followed(either):
    optimizer = either.Kfac(**NUMBERS)
    schedule = either.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.25)
    optimizer.learning_rate = schedule
    trained(either, optimizer, steps=3)
    # tf_keras keeps the rate of the last step, Keras 3 computes that of the next one.
    steps = {"keras": 3, "tf_keras": 2}[either.name]
    rate = float(np.asarray(optimizer.learning_rate))
    assert rate == pytest.approx(0.1 * 0.25 ** (steps / 2))


def test_accumulation_is_told(either):
    optimizer = either.Kfac(**NUMBERS, gradient_accumulation_steps=2)
    trained(either, optimizer, steps=4)
    assert (optimizer.gradient_accumulation_steps, int(optimizer.iterations)) == (2, 2)


# Graph mode, and scaled losses.


def test_compiling_with_mixed_float16_names_the_policy(both):
    layers = both.keras.layers
    layers = [layers.Input((6,), dtype="float32"), layers.Dense(3, dtype="mixed_float16")]
    policy = both.keras.mixed_precision
    policy.set_global_policy("mixed_float16")
    try:
        model = both.keras.Sequential(layers)
    finally:
        policy.set_global_policy("float32")
    with pytest.raises(ValueError, match=r"policy 'mixed_float16'.* Set the policy 'mixed_bfl"):
        model.compile(optimizer=both.Kfac(**NUMBERS), loss=both.cross_entropy())


def test_compiling_with_an_optimizer_for_graphs_says_so(both):
    with pytest.raises(ValueError, match=r"graph mode .* give that kfac\.keras\.Kfac\(learning"):
        both.dense_model().compile(optimizer=kfac.for_canned())


# Other variables.


def test_unfrozen_layer_needs_a_new_optimizer(either):
    model, (x, y) = either.dense_model(), either.examples(16)
    model.layers[0].trainable = False
    model.compile(optimizer=either.Kfac(**NUMBERS), loss=either.cross_entropy())
    either.fit(model, x, y)
    model.layers[0].trainable = True
    model.compile(optimizer=model.optimizer, loss=either.cross_entropy())
    with pytest.raises(ValueError, match=r"cannot train .*kernel, .*bias: .*Compile with a new op"):
        either.fit(model, x, y)
    before = model.get_weights()[0]
    new = either.Kfac.from_config(model.optimizer.get_config())
    model.compile(optimizer=new, loss=either.cross_entropy())
    either.fit(model, x, y)
    assert np.abs(model.get_weights()[0] - before).max() > 1e-3


@pytest.mark.broad
def test_layer_that_was_built_but_not_trained_needs_a_new_optimizer(either):
    model, (x, y) = either.dense_model(), either.examples(16)
    optimizer = either.Kfac(**NUMBERS)
    optimizer.build(model.trainable_variables)
    for trains_first in (False, True):
        model.layers[0].trainable = trains_first
        model.compile(optimizer=optimizer, loss=either.cross_entropy())
        if not trains_first:
            either.fit(model, x, y)
    with pytest.raises(ValueError, match="not trained before, or of another model"):
        either.fit(model, x, y)


def test_frozen_layer_stays_and_the_rest_goes_on(either):
    model, (x, y) = either.dense_model(), either.examples(16)
    model.compile(optimizer=either.Kfac(**NUMBERS), loss=either.cross_entropy())
    either.fit(model, x, y)
    model.layers[0].trainable = False
    model.compile(optimizer=model.optimizer, loss=either.cross_entropy())
    before = model.layers[0].get_weights()[0].copy(), model.layers[1].get_weights()[0].copy()
    either.fit(model, x, y)
    np.testing.assert_array_equal(model.layers[0].get_weights()[0], before[0])
    assert np.abs(model.layers[1].get_weights()[0] - before[1]).max() > 1e-4


@pytest.mark.broad
def test_second_model_needs_an_optimizer_of_its_own(either):
    optimizer = either.Kfac(**NUMBERS)
    trained(either, optimizer)
    with pytest.raises(ValueError, match="or of another model"):
        trained(either, optimizer)
