"""create_clones: one call per device, the same variables in all of them."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import DeploymentConfig, create_clones

v1 = tf.compat.v1

CPU = "/device:CPU:0"


def clones_of(model, num_clones=1, **config):
    return create_clones(DeploymentConfig(num_clones=num_clones, **config), model)


def constant_batch(model):
    return lambda: model(tf.ones([8, 4]), tf.zeros([8, 1]))


def test_single_clone_has_no_scope_and_keeps_the_model_output(graph, logistic):
    arguments = [tf.ones([8, 4])], {"labels": tf.zeros([8, 1])}
    [clone] = create_clones(DeploymentConfig(), logistic, *arguments)
    assert clone.outputs.op.name == "fully_connected/Sigmoid"
    assert (clone.scope, clone.device) == ("", "/device:GPU:0")


def test_several_clones_have_separate_scopes_and_shared_variables(any_graph, batch_norm_classifier):
    clones = clones_of(constant_batch(batch_norm_classifier), num_clones=3)
    assert len(v1.global_variables()) == 5
    assert len(v1.trainable_variables()) == 3
    assert {variable.device for variable in v1.global_variables()} == {CPU}
    for index, clone in enumerate(clones):
        assert clone.scope == f"clone_{index}/"
        assert clone.outputs.op.name == f"clone_{index}/BatchNormClassifier/fully_connected/Sigmoid"
        assert clone.device == clone.outputs.device == f"/device:GPU:{index}"
        assert len(v1.get_collection(v1.GraphKeys.UPDATE_OPS, clone.scope)) == 2
        assert len(v1.losses.get_losses(clone.scope)) == 1


def test_variables_and_tables_take_turns_on_parameter_servers_across_clones(any_graph):
    def model():
        v1.get_variable("a", shape=[])
        with v1.device("/cpu:1"):
            v1.get_variable("b", shape=[])
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        return table.resource_handle, tf.constant(1.0)

    clones = clones_of(model, num_clones=2, num_ps_tasks=2)
    tables, others = zip(*(clone.outputs for clone in clones), strict=True)
    assert [state.device for state in [*v1.global_variables(), *tables]] == [
        "/job:ps/task:0/device:CPU:0",
        "/job:ps/task:1/device:CPU:1",
        "/job:ps/task:0/device:CPU:0",
        "/job:ps/task:1/device:CPU:0",
    ]
    assert [each.device for each in others] == [
        "/job:worker/device:GPU:0",
        "/job:worker/device:GPU:1",
    ]


def slim_style(inputs):
    """A layer as slim builds them: default scope names, variables through a getter of its own."""

    def renamed(getter, name, *args, **kwargs):
        return getter(name.replace("kernel", "weights"), *args, **kwargs)

    with v1.variable_scope(None, "fc", [inputs], custom_getter=renamed) as scope:
        kernel = v1.get_variable("kernel", shape=[4, 4], collections=["variables", "model"])
        outputs = tf.matmul(inputs, kernel)
        v1.add_to_collection("end_points", (scope.name, outputs))
        return outputs


def bare(inputs):
    with v1.name_scope("layer"):
        return tf.matmul(inputs, tf.Variable(tf.ones([4, 4]), name="w"))


def keras(inputs):
    return tf.keras.layers.Dense(4)(inputs)


def get_variable(inputs):
    with v1.variable_scope("layer", reuse=v1.AUTO_REUSE):
        return tf.matmul(inputs, v1.get_variable("w", shape=[4, 4]))


def tf_layers(inputs):
    return v1.layers.dense(inputs, 4)


def taken_names(inputs):
    tf.identity(inputs, name="w")
    return tf.matmul(inputs, tf.Variable(tf.ones([4, 4]), name="w"))


MAKERS = [get_variable, bare, keras, slim_style, taken_names]
MAKERS += [tf_layers] if hasattr(v1.layers, "dense") else []


def names_and_outputs(maker, num_clones):
    """Builds two layers in each clone; returns the names of variables and each clone's outputs."""
    if maker is keras:
        tf.keras.backend.clear_session()  # It counts the layers of a process, not of a graph.

    def model():
        return maker(maker(tf.ones([2, 4])))

    options = v1.ConfigProto(allow_soft_placement=True)
    with tf.Graph().as_default(), v1.name_scope("outer"), v1.variable_scope("vs"):
        v1.set_random_seed(1)
        clones = clones_of(model, num_clones) if num_clones else []
        outputs = [clone.outputs for clone in clones] or [model()]
        if clones:
            assert {variable.device for variable in v1.global_variables()} == {CPU}
            assert [each.device for each in outputs] == [clone.device for clone in clones]
        with v1.Session(config=options) as session:
            session.run(v1.global_variables_initializer())
            computed = session.run(outputs)
        return [variable.op.name for variable in v1.global_variables()], computed


@pytest.mark.parametrize("maker", MAKERS)
def test_variables_are_shared_under_the_names_of_a_model_without_clones(maker):
    plain, _ = names_and_outputs(maker, 0)
    assert plain
    for num_clones in (1, 3):
        names, computed = names_and_outputs(maker, num_clones)
        assert names == plain
        assert np.any(computed[0])
        for other in computed[1:]:
            np.testing.assert_array_equal(other, computed[0])


def test_scopes_around_the_clones_are_kept(graph, logistic):
    with v1.name_scope("outer"), v1.variable_scope("vs"):
        [alone] = clones_of(constant_batch(logistic))
    assert alone.scope == "outer/vs/"
    with v1.name_scope("outer"), v1.variable_scope("vs", reuse=True):
        clones = clones_of(constant_batch(logistic), num_clones=2)
        again = clones_of(constant_batch(logistic), num_clones=2)
    assert [clone.scope for clone in clones] == ["outer_1/vs/clone_0/", "outer_1/vs/clone_1/"]
    assert [clone.scope for clone in again] == ["outer_1/vs/clone_0_1/", "outer_1/vs/clone_1_1/"]
    assert len(v1.global_variables()) == 2


@pytest.mark.parametrize("task", ["", "/task:1"])
def test_local_variables_stay_on_the_worker(any_graph, task):
    """Also where a device setter around the clones names its task."""

    def model():
        v1.get_variable("w", shape=[])
        v1.get_local_variable("steps", shape=[])
        return v1.metrics.mean(tf.ones([2]))[0]

    setter = v1.train.replica_device_setter(ps_tasks=1, worker_device=f"/job:worker{task}")
    with v1.device(setter if task else None):
        clones_of(model, num_clones=2, num_ps_tasks=1)
    assert len(v1.local_variables()) == 5
    assert {variable.device for variable in v1.local_variables()} == {f"/job:worker{task}{CPU}"}
    assert [variable.device for variable in v1.global_variables()] == [f"/job:ps/task:0{CPU}"]


def test_clones_with_different_variables_are_named_with_their_devices(graph):
    names = iter("ab")

    def model():
        v1.get_variable(next(names), shape=[])

    with pytest.raises(
        ValueError, match=r"clone 1 \(/device:GPU:1\) disagrees with clone 0 \(/device:GPU:0\): "
    ):
        clones_of(model, num_clones=2)
