"""HParams and strategies that place variables on parameter servers, of tf.contrib.training."""

import json

import pytest
import tensorflow as tf

from replicate.compat.contrib import training
from replicate.compat.contrib.training import HParams

v1 = tf.compat.v1


def hparams():
    return HParams(rate=0.1, layers=[64, 32], name="net", use_bias=True, steps=10)


VALUES = {"rate": 0.1, "layers": [64, 32], "name": "net", "use_bias": True, "steps": 10}


def test_attributes_values_and_membership():
    made = hparams()
    assert (made.rate, made.layers, "rate" in made, "other" in made) == (0.1, [64, 32], True, False)
    assert made.values() == VALUES
    assert (made.get("rate"), made.get("other", 3)) == (0.1, 3)
    made.rate = 0.5
    assert made.values()["rate"] == 0.5


def test_parse_reads_each_type():
    made = hparams().parse(" rate=1e-3,layers=[16, 8,4],name=a b,use_bias=false , steps=7")
    read = {"rate": 1e-3, "layers": [16, 8, 4], "name": "a b", "use_bias": False, "steps": 7}
    assert made.values() == read
    assert hparams().parse("layers[1]=5").layers == [64, 5]
    assert hparams().parse("layers=7").layers == [7]
    assert hparams().parse("").values() == VALUES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("other=1", "no hyper-parameter 'other'"),
        ("steps=1.5", "'steps' is of type int, got '1.5'"),
        ("use_bias=maybe", "true or false, got 'maybe'"),
        ("rate", "Cannot read"),
        ("steps=[1,2]", "a single value"),
        ("layers[9]=1", "no element 9"),
    ],
)
def test_parse_refuses_what_does_not_fit(text, message):
    with pytest.raises(ValueError, match=message):
        hparams().parse(text)


def test_other_sources_of_values():
    made = hparams().override_from_dict({"steps": 3, "rate": 1})
    assert (made.steps, made.rate, type(made.rate)) == (3, 1.0, float)
    assert hparams().parse_json('{"layers": [1]}').layers == [1]
    assert json.loads(made.to_json()) == made.values()
    with pytest.raises(ValueError, match="of type int, got 'x'"):
        made.set_hparam("steps", "x")
    with pytest.raises(KeyError, match="no hyper-parameter"):
        made.set_hparam("other", 1)


def test_adding_and_removing():
    made = hparams()
    made.add_hparam("more", None)
    assert made.parse("more=x").more == "x"
    made.del_hparam("more")
    assert "more" not in made
    with pytest.raises(ValueError, match="has 'rate' already"):
        made.add_hparam("rate", 1)
    with pytest.raises(ValueError, match="empty list"):
        made.add_hparam("none", [])


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_go_to_the_server_with_the_fewest_bytes(use_resource):
    strategy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    setter = v1.train.replica_device_setter(2, ps_strategy=strategy)
    with (
        tf.Graph().as_default(),
        v1.device(setter),
        v1.variable_scope("", use_resource=use_resource),
    ):
        sizes = [("a", 10), ("b", 4), ("c", 4), ("d", 1), ("e", 2)]
        tasks = [v1.get_variable(name, [size]).device for name, size in sizes]
    assert [device.partition("task:")[2][0] for device in tasks] == list("01111")


def test_size_must_be_known():
    with tf.Graph().as_default():
        assert training.byte_size_load_fn(tf.zeros([3], tf.float64).op) == 24
        with pytest.raises(ValueError, match="needs the shape"):
            training.byte_size_load_fn(v1.placeholder(tf.float32, [None]).op)
        with pytest.raises(ValueError, match="has 2"):
            training.byte_size_load_fn(tf.split(tf.zeros([2]), 2)[0].op)


def test_random_tasks_repeat_with_the_seed():
    first, second = (training.RandomStrategy(3, seed=5) for _ in range(2))
    tasks = [first(None) for _ in range(20)]
    assert tasks == [second(None) for _ in range(20)]
    assert set(tasks) == {0, 1, 2}
