import pytest
import tensorflow as tf

from replicate.variable_table import model_table

v1 = tf.compat.v1


@pytest.fixture
def variables(graph):
    with v1.device("/cpu:0"):
        kernel = v1.get_variable("dense/kernel", [784, 128])
        bias = v1.get_variable("dense/bias", [128], tf.float64)
    return [kernel, bias, v1.get_variable("step", initializer=0, dtype=tf.int32)]


def test_table(variables):
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


def test_one_variable_and_none(variables):
    assert model_table(variables[:1]).endswith("\n1 variable, 100,352 parameters, 0.38 MiB")
    assert model_table([]).endswith("\n0 variables, 0 parameters, 0.00 MiB")


def test_reference_variables(graph):
    variable = v1.get_variable("w", [2, 3], use_resource=False)
    assert "w         2x3    float32           6     24  -" in model_table([variable])
