"""Errors of public functions show the user's frames, and nothing else of them changes."""

import inspect
import itertools
import linecache
import os
import traceback
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kfac
import kfac.tracebacks
import model_deploy
import model_deploy.tracebacks
import replicate
from model_deploy.tracebacks import shows_user_frames
from replicate.gradients.tower_optimizer import TowerOptimizer

v1 = tf.compat.v1
ROWS = np.ones([4, 3], np.float32)


def input_fn():
    return tf.data.Dataset.from_tensors((ROWS, ROWS[:, 0])).repeat()


def of_the_user(features, labels, mode):
    return {"a": 1}["missing"]  # MARK


def of_tensorflow(features, labels, mode):
    return tf.matmul(features, tf.ones([7, 7]))  # MARK


def of_kfac(features, labels, mode):
    weights = v1.get_variable("w", [3, 1])
    layers = kfac.LayerCollection()
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.1, damping=0.1, cov_ema_decay=0.9, layer_collection=layers
    )
    return optimizer.minimize(tf.reduce_sum(features @ weights))  # MARK


def of_towers(features, labels, mode):
    optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
    return optimizer.minimize(tf.reduce_sum(features))  # MARK


MODEL_FNS = [of_the_user, of_tensorflow, of_kfac, of_towers]


def estimator_of(model_fn, tmp_path):
    replicated = replicate.replicate_model_fn(model_fn, devices=["/cpu:0"] * 2)
    return replicate.Estimator(replicated, str(tmp_path), replicate.RunConfig(progress="off"))


def train(model_fn, tmp_path):
    estimator_of(model_fn, tmp_path).train(input_fn, max_steps=1)


def evaluate(model_fn, tmp_path):
    estimator_of(model_fn, tmp_path).evaluate(input_fn, steps=1)


def predict(model_fn, tmp_path):
    next(estimator_of(model_fn, tmp_path).predict(input_fn))


def train_and_evaluate(model_fn, tmp_path):
    replicate.train_and_evaluate(
        estimator_of(model_fn, tmp_path),
        replicate.TrainSpec(input_fn, max_steps=1),
        replicate.EvalSpec(input_fn, steps=1),
    )


def check(model_fn, tmp_path):
    replicate.check_replication(model_fn, input_fn, ["/cpu:0"] * 2)


def shown(error):
    """The (function, line) pairs of a traceback, without this module's test function."""
    entries = traceback.extract_tb(error.__traceback__)
    return [(entry.name, entry.line) for entry in entries[1:]]


def marked(function):
    lines, first = inspect.getsourcelines(function)
    return next(
        linecache.getline(__file__, first + number).strip()
        for number, line in enumerate(lines)
        if "# MARK" in line
    )


@pytest.mark.parametrize("model_fn", MODEL_FNS)
@pytest.mark.parametrize("call", [train, check])
def test_the_last_frame_is_the_line_in_model_fn(call, model_fn, tmp_path):
    with pytest.raises((ValueError, TypeError, KeyError)) as caught:
        call(model_fn, tmp_path)
    assert [name for name, _ in shown(caught.value)] == [call.__name__, model_fn.__name__]
    assert shown(caught.value)[-1][1] == marked(model_fn)


@pytest.mark.parametrize("call", [evaluate, predict, train_and_evaluate])
def test_other_calls_of_a_model_fn(call, tmp_path):
    if call is predict or call is evaluate:
        fine = lambda features, labels, mode: replicate.EstimatorSpec(  # noqa: E731
            mode,
            features,
            tf.reduce_sum(features) * v1.get_variable("w", []),
            v1.assign_add(v1.train.get_global_step(), 1).op,
        )
        replicate.Estimator(fine, str(tmp_path), replicate.RunConfig(progress="off")).train(
            input_fn, max_steps=1
        )
    with pytest.raises(KeyError) as caught:
        call(of_the_user, tmp_path)
    assert [name for name, _ in shown(caught.value)] == [call.__name__, "of_the_user"]


clones = [0, 1]
CALLS = {
    "estimator": lambda: replicate.Estimator(3),
    "train": lambda: replicate.Estimator(of_kfac).train(input_fn, steps=-1),
    "replicate_model_fn": lambda: replicate.replicate_model_fn(of_kfac, devices="/cpu:0"),
    "tower optimizer": lambda: TowerOptimizer(3),
    "kfac": lambda: kfac.KfacOptimizer(0.1, damping=-1.0, layer_collection=kfac.LayerCollection()),
    "periodic": lambda: kfac.PeriodicInvCovUpdateKfacOpt(invert_every=-1),
    "layer": lambda: kfac.LayerCollection().register_fully_connected(
        v1.get_variable("w", [3, 1]), tf.ones([2, 3]), tf.ones([2, 1]), approx="other"
    ),
    "keras": lambda: kfac.keras.Kfac(0.1, damping="large"),
    "clones": lambda: model_deploy.create_clones(model_deploy.DeploymentConfig(), 3),
    "config": lambda: model_deploy.DeploymentConfig(num_clones=0),
    "deploy": lambda: model_deploy.deploy(
        model_deploy.DeploymentConfig(num_clones=2), lambda: v1.get_variable(f"w{clones.pop()}", [])
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_show_the_call_alone(graph, name):
    with pytest.raises((ValueError, TypeError)) as caught:
        CALLS[name]()
    model_fns = 1 if name == "deploy" else 0
    assert [function for function, _ in shown(caught.value)] == ["<lambda>"] * (1 + model_fns)


def test_the_switch_of_tensorflow_brings_the_frames_back(tmp_path):
    tf.debugging.disable_traceback_filtering()
    try:
        with pytest.raises(KeyError) as caught:
            train(of_the_user, tmp_path)
    finally:
        tf.debugging.enable_traceback_filtering()
    names = [name for name, _ in shown(caught.value)]
    assert len(names) > 8
    assert "replicated_model_fn" in names, names


def test_error_cause_and_context_stay():
    cause, context, error = KeyError("cause"), OSError("context"), ValueError("error")

    def fail():
        try:
            raise context
        except OSError:
            raise error from cause

    with pytest.raises(ValueError, match="error") as caught:
        shows_user_frames(fail)()
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (cause, context)
    assert error.__context__.__traceback__.tb_frame.f_code is fail.__code__


def library_function(body):
    """A function whose code lies in kfac, as an error's traceback has it."""
    path = os.path.join(os.path.dirname(kfac.__file__), "anywhere.py")
    scope = {}
    exec(compile(f"def function(call=None):\n    {body}", path, "exec"), scope)
    return scope["function"]


def test_faults_of_a_library_show_all_frames():
    for module in (kfac.tracebacks, model_deploy.tracebacks):
        with pytest.raises(AttributeError) as caught:
            module.shows_user_frames(library_function("return None.missing"))()
        assert [name for name, _ in shown(caught.value)] == ["call", "function"]
        with pytest.raises(ZeroDivisionError) as caught:
            module.shows_user_frames(library_function("return sorted([1, 0], key=call)"))(
                lambda value: 1 / value
            )
        assert [name for name, _ in shown(caught.value)] == ["<lambda>"]


def test_generators_and_signatures_stay_as_they_are():
    @shows_user_frames
    def numbers():
        """Yields what it gets."""
        got = yield 0
        return (yield got)

    generator = numbers()
    assert inspect.isgeneratorfunction(numbers)
    assert inspect.getfullargspec(replicate.Estimator.predict).args[:2] == ["self", "input_fn"]
    assert (numbers.__doc__, next(generator), generator.send(5)) == ("Yields what it gets.", 0, 5)
    assert list(itertools.islice(numbers(), 3)) == [0, None]


def test_both_packages_have_the_same_filter():
    codes = []
    for module in (kfac.tracebacks, model_deploy.tracebacks):
        text = Path(module.__file__).read_text()
        docstring, _, code = text.partition('"""\n\nimport ')
        assert docstring.startswith('"""Tracebacks of errors')
        codes.append(code)
    of_kfac, of_deploy = codes
    assert of_kfac == of_deploy != ""


@pytest.mark.parametrize("module", [model_deploy.tracebacks, kfac.tracebacks])
def test_errors_pass_where_tensorflow_finds_no_keras(module, monkeypatch):
    monkeypatch.setattr(tf, "__path__", [None, *tf.__path__])
    with pytest.raises(KeyError, match="missing"):
        module.shows_user_frames(of_the_user)(None, None, None)
