"""The model_fns of ready-made estimators, called in a model_fn of one's own."""

import pytest
import tensorflow as tf

import replicate
from replicate.compat.old_tensorflow import model_fns

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x", [2])


@pytest.mark.parametrize(
    ("build", "scopes"),
    [
        (lambda *of: model_fns.dnn_model_fn(*of, [3], [X], "SGD"), {"dnn"}),
        (lambda *of: model_fns.dnn_model_fn_v2(*of, [3], [X], "SGD", tf.tanh), {"dnn"}),
        (lambda *of: model_fns.linear_model_fn(*of, [X], None), {"linear"}),
        (lambda *of: model_fns.linear_model_fn_v2(*of, [X], "SGD"), {"linear"}),
        (
            lambda *of: model_fns.dnn_linear_combined_model_fn(*of, [X], "SGD", [X], "SGD", [3]),
            {"dnn", "linear"},
        ),
    ],
)
def test_model_trains(build, scopes, graph):
    v1.train.create_global_step()
    spec = build({"x": tf.ones([4, 2])}, tf.ones([4, 1]), "train", replicate.RegressionHead())
    names = [variable.op.name for variable in v1.trainable_variables()]
    assert {name.partition("/")[0] for name in names} == scopes
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        first = session.run(spec.loss)
        for _ in range(3):
            session.run(spec.train_op)
        assert session.run(spec.loss) < first
        assert session.run(v1.train.get_global_step()) == 3


def test_tpus_are_refused():
    with pytest.raises(ValueError, match="linear_model_fn got use_tpu=True"):
        model_fns.linear_model_fn({}, None, "train", None, [X], None, use_tpu=True)
