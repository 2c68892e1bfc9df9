"""Calls of a user's functions, and checks of arguments."""

import functools

import pytest

from replicate.calling import call_model_fn, check_model_fn, where

NAMES = ["config", "features", "labels", "mode", "params"]


def call(model_fn):
    return call_model_fn(model_fn, "x", "y", "train", {"a": 1}, "settings")


class Model:
    def __call__(self, features, params):
        return features, params


@pytest.mark.parametrize(
    ("model_fn", "expected"),
    [
        (lambda features: features, "x"),
        (lambda mode, features, labels: (mode, features, labels), ("train", "x", "y")),
        (lambda labels, mode, *, features: (mode, features, labels), ("train", "x", "y")),
        (lambda features, /, mode, labels: (mode, features, labels), ("train", "x", "y")),
        (lambda *features, mode, labels: (mode, *features, labels), ("train", "x", "y")),
        (lambda features, params, size=3: (features, params, size), ("x", {"a": 1}, 3)),
        (lambda **named: sorted(named), NAMES),
        (lambda *positional, **named: [*positional, *sorted(named)], NAMES),
        (functools.partial(lambda size, features: (size, features), 5), (5, "x")),
        (Model(), ("x", {"a": 1})),
    ],
)
def test_model_fn_receives_the_arguments_that_it_names(model_fn, expected):
    check_model_fn(model_fn)
    assert call(model_fn) == expected


@pytest.mark.parametrize(
    ("model_fn", "text"),
    [
        ("model", "model_fn must be a function .* got 'model'"),
        (lambda x, labels: None, "but must take features. Correct"),
        (lambda features, size: None, r"requires the arguments \['size'\]"),
    ],
)
def test_wrong_signatures(model_fn, text):
    with pytest.raises(TypeError, match=text):
        check_model_fn(model_fn)


def test_errors_name_a_function_with_its_line():
    assert where(call).startswith("call (")
    assert f"test_calling.py:{call.__code__.co_firstlineno})" in where(call)
    assert where(functools.partial(call)).startswith("functools.partial(")
