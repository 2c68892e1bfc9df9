"""Parts of a model: their variables, partitioners and units."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from replicate.canned.partitioners import is_whole, layer_partitioner, table_partitioner
from replicate.canned.parts import check_units, trainable_variables_in

v1 = tf.compat.v1


def test_variables_of_a_scope_are_those_below_it(graph):
    wanted = v1.get_variable("dnn/a", [])
    v1.get_variable("dnn_of_mine/a", [])
    v1.get_variable("dnn/steps", [], trainable=False)
    assert trainable_variables_in("dnn") == [wanted]


@pytest.mark.parametrize("units", [{"a": 1}, 2.0, True, None])
def test_units_must_be_an_int(units):
    with pytest.raises(ValueError, match="units must be an int, the logits per example, got"):
        check_units(units)


def config(servers):
    return SimpleNamespace(num_ps_replicas=servers)


def test_variables_stay_whole_without_several_servers():
    for each in (None, config(0), config(1)):
        assert layer_partitioner(each) is None
        assert table_partitioner(each, None) is None


def test_variables_are_cut_into_parts_for_servers():
    shape, dtype = tf.TensorShape([2**20, 64]), tf.float32
    assert layer_partitioner(config(3))(shape=shape, dtype=dtype) == [3, 1]
    assert table_partitioner(config(8), None)(shape=shape, dtype=dtype) == [4, 1]


def test_partitioner_of_the_user_goes_first():
    given = v1.fixed_size_partitioner(5)
    assert table_partitioner(config(8), given) is given
    assert table_partitioner(config(0), given) is given


def test_partitioned_variable_is_not_whole(graph):
    assert is_whole(v1.get_variable("a", [4]))
    parted = v1.get_variable("b", [4], partitioner=v1.fixed_size_partitioner(2))
    assert not is_whole(parted)
