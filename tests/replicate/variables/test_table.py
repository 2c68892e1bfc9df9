"""The table of variables, and the notes in it."""

import pytest
import tensorflow as tf

import kfac
from replicate.protocols import VARIABLE_NOTES
from replicate.variables.table import model_table, short_table, variable_notes, variable_rows

v1 = tf.compat.v1


@pytest.fixture
def variables(graph):
    with v1.device("/cpu:0"):
        kernel = v1.get_variable("dense/kernel", [784, 128])
        bias = v1.get_variable("dense/bias", [128], tf.float64, use_resource=False)
    return [kernel, bias, v1.get_variable("step", initializer=0, dtype=tf.int32)]


def test_table(variables):
    assert model_table([]).endswith("\n0 variables, 0 parameters, 0.00 MiB")
    assert model_table(variables).splitlines() == [
        "variable      shape    dtype    parameters    bytes  device",
        "dense/kernel  784x128  float32     100,352  401,408  /device:CPU:0",
        "dense/bias    128      float64         128    1,024  /device:CPU:0",
        "step          scalar   int32             1        4  -",
        "3 variables, 100,481 parameters, 0.38 MiB",
    ]


def test_table_with_notes(variables):
    assert model_table(variables[1:], {"dense/bias": "FullyConnected"}).splitlines() == [
        "variable    shape   dtype    parameters  bytes  device         note",
        "dense/bias  128     float64         128  1,024  /device:CPU:0  FullyConnected",
        "step        scalar  int32             1      4  -              -",
        "2 variables, 129 parameters, 0.00 MiB",
    ]


def test_unknown_shapes_do_not_count(graph):
    unknown = v1.get_variable("a", initializer=v1.placeholder(tf.float32), validate_shape=False)
    partly = v1.get_variable(
        "b", initializer=v1.placeholder(tf.float32, [None, 3]), validate_shape=False
    )
    shapes = [row.shape for row in variable_rows([unknown, partly])]
    assert shapes == ["?", "?x3"] if partly.shape.rank else ["?", "?"]
    assert model_table([unknown]).splitlines()[1:] == [
        "a         ?      float32           ?      ?  -",
        "1 variable, 0 parameters, 0.00 MiB",
    ]


def test_short_table_leaves_out_what_is_the_same_for_all(variables):
    rows = variable_rows(variables[:1], {"dense/kernel": "kron"})
    assert short_table(rows, 9, 80).splitlines()[0].split() == [
        "variable", "shape", "parameters", "bytes"
    ]  # fmt: skip
    rows = variable_rows(variables, {"dense/kernel": "kron"})
    assert short_table(rows, 9, 80).splitlines()[0].split() == [
        "variable", "shape", "dtype", "parameters", "bytes", "device", "note"
    ]  # fmt: skip


def test_short_table_leaves_out_the_middle_of_many_rows(variables):
    rows = [variable_rows(variables)[0]._replace(variable=f"v{i}") for i in range(9)]
    assert [line.split()[0] for line in short_table(rows, 4, 80).splitlines()] == [
        "variable", "v0", "v1", "...", "v7", "v8", "9"
    ]  # fmt: skip
    assert "... 5 more ..." in short_table(rows, 4, 80)
    assert "more" not in short_table(rows, 8, 80)


def test_short_table_cuts_long_names(variables):
    row = variable_rows(variables)[0]._replace(variable="begin/" + "x" * 90 + "/end")
    lines = short_table([row], 9, 60).splitlines()
    assert len(lines[1]) == 60
    assert lines[1].startswith("begin/xxx")
    assert "xx/end  784x128" in lines[1]
    assert short_table([row], 9, 10).splitlines()[1].split()[0] == "begin/xxx...xxxx/end"


def test_a_later_note_replaces_an_earlier_one(graph):
    assert variable_notes(graph) == {}
    graph.get_collection_ref(VARIABLE_NOTES).extend(
        [lambda: {"a": "1", "b": "2"}, lambda: {"b": "3"}]
    )
    assert variable_notes(graph) == {"a": "1", "b": "3"}
    assert list(v1.train.export_meta_graph(graph=graph).collection_def) == []


def test_kfac_notes_the_block_of_each_variable(graph):
    weights = v1.get_variable("w", [3, 2])
    layers = kfac.graph_layer_collection()
    features = tf.ones([4, 3])
    layers.register_fully_connected(weights, features, tf.matmul(features, weights))
    assert variable_notes(graph) == {"w": "kron 3x3 (x) 2x2"}
