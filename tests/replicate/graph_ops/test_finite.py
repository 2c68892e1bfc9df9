"""The check of losses and gradients: every NaN and infinity is found and named, nothing else is."""

import re

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import NonFiniteError
from replicate.graph_ops.checks import user_errors
from replicate.graph_ops.finite import finite_flags, require_finite, watched, watched_all

v1 = tf.compat.v1


def entries_of(dtype):
    """Two gradients and a loss, all of them fed, the second gradient on another device."""
    feeds = [v1.placeholder(dtype, shape) for shape in ([2, 2], [3], [])]
    with v1.device("/cpu:1"):
        second = watched(feeds[1], "The gradient of b")
    found = [watched(feeds[0], "The gradient of a"), second]
    return feeds, [*found, watched(feeds[2], "The loss", is_loss=True)]


def session():
    return v1.Session(config=v1.ConfigProto(device_count={"CPU": 2}))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_flags_mark_tensors_that_are_not_finite(graph, dtype, bad):
    feeds, entries = entries_of(dtype)
    flags, descriptions = finite_flags(entries)
    assert descriptions == ("The loss", "The gradient of a", "The gradient of b")
    largest = 6e4 if dtype == tf.float16 else 1e18
    fine = [np.full([2, 2], largest), np.zeros([3]), -1.0]
    with session() as s:
        assert s.run(flags, dict(zip(feeds, fine, strict=True))).tolist() == [True] * 3
        one_bad = [fine[0], [0.0, bad, 1.0], fine[2]]
        assert s.run(flags, dict(zip(feeds, one_bad, strict=True))).tolist() == [True, True, False]
        both = [[[bad, 0.0], [-bad, 0.0]], fine[1], bad]
        assert s.run(flags, dict(zip(feeds, both, strict=True))).tolist() == [False, False, True]


def test_types_may_differ(graph):
    entries = [watched(tf.constant(1e200, tf.float64), "a"), watched(tf.constant(np.nan), "b")]
    flags, descriptions = finite_flags(entries)
    with session() as s:
        found = dict(zip(descriptions, s.run(flags), strict=True))
    assert found == {"a": True, "b": False}


def test_many_gradients_keep_their_descriptions(graph):
    shapes = {"a": [2, 2], "b": [3], "c": [], "d": [3], "e": [2], "f": None, "g": [3], "h": [None]}
    shapes |= {"i": [3], "j": [2], "k": [3, 1]}
    feeds = {name: v1.placeholder(tf.float32, shape) for name, shape in shapes.items()}
    (entry,) = watched_all((feed, name) for name, feed in feeds.items())
    flags, descriptions = finite_flags([entry])
    assert sorted(descriptions) == list(shapes)
    fine = {feed: np.ones(shapes[name] or []) for name, feed in feeds.items() if name != "h"}
    fine[feeds["h"]] = np.ones([4])
    with session() as s:
        assert s.run(flags, fine).all()
        for name, feed in feeds.items():
            bad = s.run(flags, {**fine, feed: np.full_like(fine[feed], np.nan)})
            assert [name] == [
                told for told, flag in zip(descriptions, bad, strict=True) if not flag
            ]


@pytest.mark.parametrize(("loss", "named"), [(1.0, "The gradient of a"), (np.inf, "The loss")])
def test_failure_names_the_first_loss_or_gradient(graph, loss, named):
    feeds, entries = entries_of(tf.float32)
    required = require_finite(entries)
    fine, bad = [np.ones([2, 2]), np.ones([3]), 1.0], [np.full([2, 2], np.nan), np.ones([3]), loss]
    text = f"{named} is NaN or infinite; no variable was changed in this step. Look"
    with session() as s, user_errors():
        s.run(required, dict(zip(feeds, fine, strict=True)))
        with pytest.raises(NonFiniteError, match="^" + re.escape(text)), user_errors():
            s.run(required, dict(zip(feeds, bad, strict=True)))
