"""Training with fit and in a loop: numbers that change, saved state, accumulation, replicas."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

NUMBERS = {"learning_rate": 0.05, "damping": 0.02, "invert_every": 3}


def compiled(keras, sizes=(5, 3), **numbers):
    model = keras.dense_model(sizes)
    model.compile(optimizer=keras.Kfac(**{**NUMBERS, **numbers}), loss=keras.cross_entropy())
    return model


def assert_equal_weights(one, other, atol=0.0):
    for mine, others in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(mine, others, rtol=0, atol=atol)


def test_saved_model_goes_on_bit_for_bit(both, tmp_path):
    x, y = both.examples(64)
    model = compiled(both, weight_decay=0.01, fisher_approx={"Dense": "ekfac"})
    both.fit(model, x, y)
    model.save(tmp_path / "model.keras")
    loaded = both.keras.models.load_model(tmp_path / "model.keras")
    assert int(loaded.optimizer.iterations) == 4
    both.fit(model, x, y)
    both.fit(loaded, x, y)
    assert_equal_weights(loaded, model)


def test_state_that_a_file_lacks_gives_a_warning(either, tmp_path):
    """The values of a .h5 file have no names; a file of another optimizer has other names."""
    x, y = either.examples(64)
    model = compiled(either)
    either.fit(model, x, y)
    model.save(tmp_path / "model.h5")
    with pytest.warns(UserWarning, match=r"were not loaded: a \.h5 .* save as \.keras"):
        loaded = either.keras.models.load_model(tmp_path / "model.h5")
    assert (int(loaded.optimizer.iterations), loaded.optimizer.training.store.values()) == (4, {})
    either.fit(loaded, x, y)
    state = {"0": np.array(4), "1": np.array(0.1)}
    with pytest.warns(UserWarning, match="the file has none of K-FAC"):
        compiled(either).optimizer.load_own_variables(state)


@pytest.mark.broad
def test_fit_that_fails_goes_on_from_its_backup_bit_for_bit(either, tmp_path):
    x, y = either.examples(32)

    class Fail(either.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1 and self.model.optimizer.iterations > 4:
                raise InterruptedError

    def fit(*callbacks):
        model = compiled(either)
        options = {"batch_size": 8, "epochs": 3, "shuffle": False, "verbose": 0}
        return model, model.fit(x, y, callbacks=[*callbacks], **options).epoch

    backup = either.keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    with pytest.raises(InterruptedError):
        fit(backup, Fail())
    (resumed, epochs), (whole, _) = fit(backup), fit()
    assert epochs == [1, 2]
    assert_equal_weights(resumed, whole)


def test_numbers_change_between_steps(either):
    """A step is in proportion to the rate, is bounded by the constraint, and decays weights."""
    x, y = either.examples(16)
    model = compiled(either, norm_constraint=1e6, momentum=0.5, weight_decay=1e-3)
    optimizer, changes = model.optimizer, []

    class Change(either.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.before = [w.copy() for w in model.get_weights()]
            optimizer.momentum = 0.0
            if epoch == 1:
                optimizer.norm_constraint = 1e-12
            if epoch == 2:
                optimizer.learning_rate, optimizer.damping = 0.0, 0.5

        def on_epoch_end(self, epoch, logs=None):
            after = model.get_weights()
            pairs = zip(after, self.before, strict=True)
            changes.append(max(np.abs(new - old).max() for new, old in pairs))

    either.fit(model, x, y, epochs=3, callbacks=[Change()])
    assert changes[0] > 1e-3 > changes[1] > 0 == changes[2]
    config = optimizer.get_config()
    assert (config["momentum"], config["damping"]) == (0.0, 0.5)


def test_constraints_hold_after_each_step(both):
    layers = both.keras.layers
    dense = layers.Dense(3, kernel_initializer="zeros", kernel_constraint="non_neg")
    model = both.keras.Sequential([layers.Input((6,)), dense])
    model.compile(optimizer=both.Kfac(**NUMBERS), loss=both.cross_entropy())
    both.fit(model, *both.examples(64))
    kernel, bias = model.get_weights()
    assert kernel.min() == 0 < kernel.max()
    assert bias.min() < 0


def test_numbers_follow_schedules_that_are_saved(either):
    schedule = either.keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5)
    model = compiled(either, learning_rate=schedule, damping=schedule)
    either.fit(model, *either.examples(32))
    copy = either.Kfac.from_config(model.optimizer.get_config())
    assert float(copy.damping(4)) == pytest.approx(0.025)
    with pytest.raises(ValueError, match=r"Cannot set K-FAC's damping to 0\.1: it was made with"):
        copy.damping = 0.1


def test_adaptive_needs_no_numbers(either):
    model = either.dense_model()
    model.compile(optimizer=either.Kfac(adaptive=True), loss=either.cross_entropy())
    losses = either.fit(model, *either.examples(128), batch_size=128, epochs=15)
    assert losses[-1] < 0.3 < losses[0]
    assert float(np.asarray(model.optimizer.damping)) != pytest.approx(0.1)


@pytest.mark.broad
def test_other_ways_take_the_steps_of_the_whole_batch(either):
    """Half batches that accumulate, two replicas, and a loop of a `tf.function`."""
    x, y = either.examples(64)
    settings = {"sizes": (3,), "estimation_mode": "empirical"}
    whole = compiled(either, **settings)
    either.fit(whole, x, y)

    halves = compiled(either, **settings, gradient_accumulation_steps=2)
    either.fit(halves, x, y, batch_size=8)
    assert int(halves.optimizer.iterations) == 4
    assert_equal_weights(halves, whole, atol=1e-5)

    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        replicas = compiled(either, **settings)
    either.fit(replicas, x, y)
    assert_equal_weights(replicas, whole, atol=1e-5)

    loop, loss_of = either.dense_model((3,)), either.cross_entropy()
    optimizer = either.Kfac(**NUMBERS, estimation_mode="empirical")

    @tf.function
    def step(x, y):
        return optimizer.minimize(
            lambda: loss_of(y, loop(x, training=True)), loop.trainable_variables
        )

    losses = [float(step(x[i : i + 16], y[i : i + 16])) for i in range(0, 64, 16)]
    assert len(set(losses)) == 4
    assert_equal_weights(loop, whole, atol=1e-6)


@pytest.mark.slow
def test_gradients_of_a_tape_with_their_loss(either):
    x, y = either.examples(16)
    weight = tf.Variable(np.ones([6, 3], np.float32))
    optimizer = either.Kfac(**NUMBERS)

    @tf.function
    def step(with_loss):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x @ weight)
            )
        gradients = tape.gradient(loss, [weight])
        optimizer.apply_gradients(
            zip(gradients, [weight], strict=True), loss=loss if with_loss else None
        )
        return loss

    assert float(step(True)) > float(step(True))
    with pytest.raises(ValueError, match="K-FAC needs the loss of the step"):
        step(False)


def test_user_registers_the_distribution_of_an_own_loss(either):
    """A Laplace distribution's scale is unknown to K-FAC; its normal neighbour is registered."""
    x, _ = either.examples(16)
    targets = x[:, :3] * 2

    def absolute(y, predicted):
        layers = kfac.graph_layer_collection()
        layers.register_normal_predictive_distribution(predicted, targets=y)
        return tf.reduce_mean(tf.abs(y - predicted), axis=-1)

    model = either.dense_model(sizes=(3,))
    model.compile(optimizer=either.Kfac(0.5, 0.01), loss=absolute)
    losses = either.fit(model, x, targets, epochs=6)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "numbers",
    [
        {"estimation_mode": "empirical", "momentum": 0.9, "cov_update_every": 2},
        pytest.param({"estimation_mode": "exact", "adapt_damping": True}, marks=pytest.mark.slow),
    ],
)
def test_xla_takes_the_steps_of_tensorflow(keras3, numbers):
    """Neither draws; XLA draws other normal numbers and classes than TensorFlow."""
    x, y = keras3.examples(32)
    (_, plain), (losses, compiled) = [train_for(keras3, jit, numbers, x, y) for jit in (0, 1)]
    assert losses[-1] < losses[0]
    assert_equal_weights(compiled, plain, atol=1e-4)


def train_for(keras, jit_compile, numbers, x, y):
    model = keras.dense_model((3,))
    optimizer = keras.Kfac(**{**NUMBERS, **numbers})
    model.compile(optimizer=optimizer, loss=keras.cross_entropy(), jit_compile=bool(jit_compile))
    return keras.fit(model, x, y, epochs=5), model


@pytest.mark.slow
def test_xla_draws_classes(keras3):
    """With K-FAC's own samples the loss falls as far."""
    x, y = keras3.examples(32)
    plain, compiled = (train_for(keras3, jit, {}, x, y)[0][-2:].mean() for jit in (0, 1))
    assert compiled == pytest.approx(plain, rel=0.1)


# Errors.


@pytest.mark.parametrize(
    ("numbers", "options", "error", "message"),
    [
        ({}, {"run_eagerly": True}, RuntimeError, r"executes eagerly.*run_eagerly=False"),
        ({"inverse_delay": 2}, {}, ValueError, "inverse_delay needs a graph and a session, and"),
    ],
    ids=["eager", "delay"],
)
def test_step_that_cannot_run_is_an_error(either, numbers, options, error, message):
    model = either.dense_model()
    optimizer = either.Kfac(**NUMBERS, **numbers)
    model.compile(optimizer=optimizer, loss=either.cross_entropy(), **options)
    with pytest.raises(error, match=message):
        either.fit(model, *either.examples(16))


def test_step_of_replicas_that_xla_compiles_is_an_error(either):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        model, optimizer = either.dense_model((3,)), either.Kfac(**NUMBERS)

    def step(x):
        return optimizer.minimize(
            lambda: tf.reduce_mean(tf.square(model(x))), model.trainable_variables
        )

    run = tf.function(lambda x: strategy.run(step, (x,)), jit_compile=True, autograph=False)
    with pytest.raises(ValueError, match=r"several replicas .* XLA .* Pass jit_compile=False"):
        run(tf.ones([4, 6]))


def test_building_for_replicas_before_fit_turns_xla_off(keras3, caplog):
    class Step:
        jit_compile, name = True, "net"

        def prepare(self, variables):
            self.optimizer.build(variables)

    def prepared(devices):
        step = Step()
        with tf.distribute.MirroredStrategy(devices).scope():
            step.optimizer = keras3.Kfac(**NUMBERS)
            step.prepare(keras3.dense_model().trainable_variables)
        return step

    assert prepared(["/cpu:0"]).jit_compile
    with caplog.at_level("INFO", logger="absl"):
        assert not prepared(["/cpu:0", "/cpu:1"]).jit_compile
    assert "turns jit_compile off for model 'net'" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "learning_rate and damping are missing"),
        ({"learning_rate": 0.1, "adaptive": True}, ValueError, "not go with adaptive=True"),
        ({**NUMBERS, "damping": -1.0}, ValueError, "damping=-1.0. It must be > 0"),
        ({**NUMBERS, "unknown_layers": "skip"}, ValueError, "Accepted are 'error', 'diagonal'"),
        ({**NUMBERS, "fisher_approx": {"a": "b"}}, ValueError, r"fisher_approx\['a'\]='b'"),
        ({**NUMBERS, "fisher_approx": "b"}, ValueError, "fisher_approx='b'"),
        ({**NUMBERS, "gradient_accumulation_steps": 0}, ValueError, "gradient_accumulation_steps"),
        (
            {"adaptive": True, "gradient_accumulation_steps": 2},
            ValueError,
            "does not go with a damping that adapts",
        ),
        ({"learning_rate": 0.1}, ValueError, ": damping is missing"),
        ({**NUMBERS, "inverse_every": 3}, TypeError, "^Kfac has no .* Did you mean invert_every?"),
        ({**NUMBERS, "zzz": 3}, TypeError, "^Kfac has no argument zzz. Accepted are adapt_damping"),
        ({"lr": 0.1, "damping": 0.1}, TypeError, "its name is learning_rate"),
        ({**NUMBERS, "clipnorm": 1.0}, TypeError, "no argument clipnorm: .* norm_constraint"),
        ({**NUMBERS, "fisher_approx": {1: "ekfac"}}, TypeError, "has the key 1"),
        ({**NUMBERS, "loss": "mse"}, TypeError, "no argument loss: it finds the loss in the graph"),
    ],
)
def test_bad_argument_is_an_error(either, arguments, error, message):
    with pytest.raises(error, match=message):
        either.Kfac(**arguments)


@pytest.mark.broad
def test_importing_kfac_loads_no_optimizer_of_keras(run_python):
    """TensorFlow itself loads Keras 3."""
    code = "import sys, kfac.keras; print([n for n in sys.modules if n.startswith(%r)])"
    found = run_python(code % (("tf_keras", "kfac.keras."),))
    assert (found.code, found.out.strip()) == (0, "[]"), found.err
