"""Without TF_CONFIG nothing is sent; wrong calls end in errors that say what to do."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicate.keras
from replicate.all_reduce.group import WorkerGroup
from replicate.all_reduce.settings import AllReduce
from replicate.errors import ClusterError
from replicate.estimator.run_config import RunConfig
from replicate.keras import process, watch

pytestmark = pytest.mark.skipif(hasattr(tf, "estimator"), reason="needs Keras 3")


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    monkeypatch.setattr(process, "_PROCESS", [])
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def one_of_two(monkeypatch):
    """Makes this process one of two, which are not connected."""
    fake = types.SimpleNamespace(
        size=2,
        is_chief=True,
        watch=types.SimpleNamespace(begin=lambda: None, forget=lambda: None),
        take_keys=lambda: 0,
        group=lambda key: WorkerGroup("ab", 0, AllReduce(), key),
    )
    monkeypatch.setattr(process, "_PROCESS", [fake])


def test_one_process_trains_as_without(tmp_path):
    assert (replicate.keras.rank(), replicate.keras.size()) == (0, 1)
    adam = keras.optimizers.Adam(0.1)
    assert replicate.keras.DistributedOptimizer(adam) is adam
    layer = keras.layers.Dense(1, kernel_initializer="zeros")
    model = keras.Sequential([keras.layers.Input([2]), layer])
    model.compile(adam, loss="mse")
    saving = keras.callbacks.ModelCheckpoint(tmp_path / "m.keras")
    callbacks = [replicate.keras.Workers(chief=[saving])]
    history = model.fit(np.ones([8, 2]), np.ones([8]), verbose=0, epochs=3, callbacks=callbacks)
    # A first step of Adam adds its rate to each of the three weights, and the second nearly so.
    np.testing.assert_allclose(history.history["loss"], [1, 0.7**2, 0.4**2], rtol=0.05)
    assert (tmp_path / "m.keras").exists()


def test_nothing_is_watched_after_a_loop_that_follows_one_with_an_error():
    class Failing(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise OSError("no place")

    model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    data = np.ones([8, 2]), np.ones([8])
    with pytest.raises(OSError, match="no place"):
        model.fit(*data, verbose=0, callbacks=[replicate.keras.Workers(), Failing()])
    assert process.current().watch._depth == 1
    model.fit(*data, verbose=0, callbacks=[replicate.keras.Workers()])
    assert process.current().watch._depth == 0


def test_init_is_called_once():
    replicate.keras.init()
    with pytest.raises(ValueError, match=r"init\(\) was called twice"):
        replicate.keras.init()


@pytest.mark.parametrize("task", ["ps", "evaluator"])
def test_tasks_that_train_nothing(monkeypatch, task):
    cluster = '{"chief": ["a:1"], "ps": ["b:2"]}' if task == "ps" else '{"chief": ["a:1"]}'
    text = f'{{"cluster": {cluster}, "task": {{"type": "{task}", "index": 0}}}}'
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=f"the task {task} 0|parameter servers"):
        replicate.keras.init()


def test_init_comes_before_the_first_weights(monkeypatch):
    tf.ones([]) + 1  # Eager mode has begun.
    cluster = '{"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}'
    text = f'{{"cluster": {cluster}, "task": {{"type": "chief", "index": 0}}}}'
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=r"computed something before.*at the beginning"):
        replicate.keras.init()


def test_arguments_of_other_types():
    with pytest.raises(TypeError, match=r"an optimizer of Keras 3.*got 'adam'"):
        replicate.keras.DistributedOptimizer("adam")
    with pytest.raises(TypeError, match="callbacks of Keras, got 3"):
        replicate.keras.Workers(chief=[3])
    with pytest.raises(ValueError, match="EarlyStopping, which would change training on the chief"):
        replicate.keras.Workers(chief=[keras.callbacks.EarlyStopping()])


def test_a_model_that_every_process_would_train_on_its_own(one_of_two, tmp_path):
    model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1)])
    model.compile(replicate.keras.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
    model.save(tmp_path / "m.keras")
    workers = replicate.keras.Workers()
    workers.set_model(keras.models.load_model(tmp_path / "m.keras"))
    with pytest.raises(ValueError, match=r"'sgd.*' is not one of DistributedOptimizer"):
        workers.on_train_begin()


def test_wrong_steps(one_of_two):
    sgd = replicate.keras.DistributedOptimizer(keras.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match="twice"):
        replicate.keras.DistributedOptimizer(sgd)
    variable = keras.Variable(np.ones(2, "f4"))
    with pytest.raises(RuntimeError, match=r"put the step into a tf\.function"):
        sgd.apply([tf.ones(2)], [variable])
    with tf.Graph().as_default():
        unknown = tf.compat.v1.placeholder(tf.float32, [None])
        with pytest.raises(ValueError, match="shapes of all gradients"):
            sgd.apply([unknown], [types.SimpleNamespace(shape=[None], path="a/kernel")])
        keras.config.set_dtype_policy("mixed_float16")
        try:
            with pytest.raises(ValueError, match=r"DistributedOptimizer\(keras.*LossScale"):
                sgd.apply([tf.ones(2)], [variable])
        finally:
            keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    ("lost", "silence", "text"),
    [(["worker 0 at 'a:1'"], 0, "no answer from worker 0 at 'a:1'"), ([], 9, "fewer batches")],
)
def test_a_lost_process_and_a_long_silence_end_this_one(monkeypatch, lost, silence, text):
    ended = []

    def end(error):
        ended.append(str(error))
        raise SystemExit

    monkeypatch.setattr(ClusterError, "exit", end)
    monkeypatch.setattr(watch, "POLL_SECS", 0.001)
    monkeypatch.setattr(watch, "absent_tasks", lambda *_: [])
    watched = watch.Watch(RunConfig(), limit=5)
    watched._peers = types.SimpleNamespace(lost=lambda: lost)
    watched.begin()
    watched._beat_at -= silence
    with pytest.raises(SystemExit):
        watched._watch()
    assert text in ended[0]
