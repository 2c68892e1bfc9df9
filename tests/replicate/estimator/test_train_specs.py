from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.estimator.train_specs import EvalSpec, TrainSpec, checked_listeners

v1 = tf.compat.v1


def exporter(name):
    return SimpleNamespace(name=name, export=lambda *args, **kwargs: None)


def test_defaults():
    assert TrainSpec(len)._asdict() == {
        "input_fn": len,
        "max_steps": None,
        "hooks": (),
        "saving_listeners": (),
    }
    assert EvalSpec(len)._asdict() == {
        "input_fn": len,
        "steps": 100,
        "name": None,
        "hooks": (),
        "exporters": (),
        "start_delay_secs": 120,
        "throttle_secs": 600,
    }


def test_a_single_exporter_stands_for_a_list():
    one = exporter("a")
    assert EvalSpec(len, exporters=one).exporters == EvalSpec(len, exporters=[one]).exporters


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TrainSpec(3), TypeError, "TrainSpec: input_fn must be a function.*got 3"),
        (lambda: TrainSpec(len, max_steps=0), ValueError, "max_steps must be greater than 0"),
        (lambda: TrainSpec(len, hooks=[3]), TypeError, "TrainSpec: hooks must hold"),
        (lambda: TrainSpec(len, saving_listeners=[3]), TypeError, "saving_listeners must hold"),
        (lambda: TrainSpec(len, saving_listeners=3), TypeError, "saving_listeners must be a list"),
        (lambda: EvalSpec(None), TypeError, "EvalSpec: input_fn must be a function"),
        (lambda: EvalSpec(len, steps=-1), ValueError, "EvalSpec: steps must be greater than 0"),
        (lambda: EvalSpec(len, name=3), TypeError, "name must be a string or None, got 3"),
        (lambda: EvalSpec(len, hooks=[3]), TypeError, "EvalSpec: hooks must hold"),
        (lambda: EvalSpec(len, exporters=[3]), TypeError, "exporters must hold exporters.*got 3"),
        (lambda: EvalSpec(len, exporters=[exporter(3)]), TypeError, "exporters must hold"),
        (lambda: EvalSpec(len, exporters=[exporter("a")] * 2), ValueError, "its own name"),
        (lambda: EvalSpec(len, start_delay_secs=-1), ValueError, "start_delay_secs must be >= 0"),
        (lambda: EvalSpec(len, throttle_secs=float("nan")), ValueError, "throttle_secs must be"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_listeners():
    listener = v1.train.CheckpointSaverListener()
    assert checked_listeners([listener]) == (listener,)
    assert checked_listeners(None) == ()
