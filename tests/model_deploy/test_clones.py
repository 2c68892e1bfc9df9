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


def test_single_clone_has_no_scope_and_keeps_the_model_output(any_graph, logistic):
    [clone] = clones_of(constant_batch(logistic))
    assert clone.outputs.op.name == "fully_connected/Sigmoid"
    assert (clone.scope, clone.device) == ("", "/device:GPU:0")
    assert [variable.op.name for variable in v1.trainable_variables()] == [
        "fully_connected/weights",
        "fully_connected/biases",
    ]


def test_arguments_reach_the_model_function(graph, logistic):
    config = DeploymentConfig(clone_on_cpu=True)
    [clone] = create_clones(config, logistic, [tf.ones([8, 4])], {"labels": tf.zeros([8, 1])})
    assert clone.outputs.shape == [8, 1]


def test_several_clones_have_separate_scopes_and_shared_variables(any_graph, batch_norm_classifier):
    clones = clones_of(constant_batch(batch_norm_classifier), num_clones=3)
    assert len(v1.global_variables()) == 5
    assert len(v1.trainable_variables()) == 3
    for index, clone in enumerate(clones):
        assert clone.scope == f"clone_{index}/"
        assert clone.outputs.op.name == f"clone_{index}/BatchNormClassifier/fully_connected/Sigmoid"
        assert clone.device == clone.outputs.device == f"/device:GPU:{index}"
        assert len(v1.get_collection(v1.GraphKeys.UPDATE_OPS, clone.scope)) == 2
        assert len(v1.losses.get_losses(clone.scope)) == 1


def test_variables_are_on_the_cpu_for_any_clone_device(any_graph, batch_norm_classifier):
    clones_of(constant_batch(batch_norm_classifier), num_clones=2)
    assert {variable.device for variable in v1.global_variables()} == {CPU}


def test_reference_variables_are_read_on_the_cpu(new_graph, logistic):
    with new_graph(use_resource=False):
        clones_of(constant_batch(logistic), num_clones=2)
        assert {variable.value().device for variable in v1.global_variables()} == {CPU}


def test_variables_take_turns_on_parameter_servers_across_clones(any_graph, batch_norm_classifier):
    clones = clones_of(constant_batch(batch_norm_classifier), num_clones=2, num_ps_tasks=2)
    found = [variable.device for variable in v1.global_variables()]
    assert found == [f"/job:ps/task:{task}/device:CPU:0" for task in (0, 1, 0, 1, 0)]
    assert [clone.outputs.device for clone in clones] == [
        "/job:worker/device:GPU:0",
        "/job:worker/device:GPU:1",
    ]


def test_tables_take_turns_on_parameter_servers_across_clones(any_graph):
    def model():
        for name in "ab":
            v1.get_variable(name, shape=[])
        return tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1).resource_handle

    clones = clones_of(model, num_clones=2, num_ps_tasks=2)
    found = [clone.outputs.device for clone in clones]
    assert found == [f"/job:ps/task:{task}/device:CPU:0" for task in (0, 1)]


def test_an_inner_device_moves_a_variable_within_its_server(any_graph):
    def model():
        with v1.device("/cpu:0"):
            return v1.get_variable("w", shape=[])

    clones = clones_of(model, num_clones=2, num_ps_tasks=1)
    assert clones[1].outputs.device == "/job:ps/task:0/device:CPU:0"


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


def has_tf_layers():
    try:
        return bool(v1.layers.dense)
    except AttributeError:
        return False


MAKERS = [get_variable, bare, keras, slim_style, taken_names]
MAKERS += [tf_layers] if has_tf_layers() else []


def names_of(maker, num_clones, name_scope=None):
    """Builds two layers in each clone and returns the names of all variables."""
    if maker is keras:
        tf.keras.backend.clear_session()  # It counts the layers of a process, not of a graph.

    def model():
        return maker(maker(tf.ones([2, 4])))

    with tf.Graph().as_default(), v1.name_scope(name_scope), v1.variable_scope("vs"):
        clones = clones_of(model, num_clones)
        assert {variable.device for variable in v1.global_variables()} == {CPU}
        assert {clone.outputs.device for clone in clones} == {clone.device for clone in clones}
        return [variable.op.name for variable in v1.global_variables()]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name_scope", [None, "outer"])
def test_names_do_not_depend_on_the_number_of_clones(maker, name_scope):
    alone = names_of(maker, 1, name_scope)
    assert alone
    assert "clone" not in " ".join(alone)
    assert names_of(maker, 2, name_scope) == names_of(maker, 3, name_scope) == alone


def test_names_equal_those_of_a_model_without_clones(graph):
    def model():
        return bare(get_variable(tf.ones([2, 4])))

    clones_of(model, num_clones=2)
    assert [each.op.name for each in v1.global_variables()] == ["layer/w", "layer_1/w"]
    with tf.Graph().as_default():
        model()
        assert [each.op.name for each in v1.global_variables()] == ["layer/w", "layer_1/w"]


@pytest.mark.parametrize("maker", MAKERS)
def test_clones_compute_with_the_same_variables(maker):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        clones = clones_of(lambda: maker(tf.ones([2, 4])), num_clones=2, clone_on_cpu=True)
        session.run(v1.global_variables_initializer())
        first, second = session.run([clone.outputs for clone in clones])
        np.testing.assert_array_equal(first, second)
        assert np.any(first)


def test_scopes_around_the_clones_are_kept(graph, logistic):
    with v1.name_scope("outer"), v1.variable_scope("vs"):
        [alone] = clones_of(constant_batch(logistic))
    assert alone.scope == "outer/vs/"
    with v1.name_scope("outer"), v1.variable_scope("vs", reuse=True):
        clones = clones_of(constant_batch(logistic), num_clones=2)
    assert clones[1].scope == "outer_1/vs/clone_1/"
    assert len(v1.global_variables()) == 2


def test_second_set_of_clones_gets_a_new_scope(graph, logistic):
    clones_of(constant_batch(logistic), num_clones=2)
    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
        again = clones_of(constant_batch(logistic), num_clones=2)
    assert [clone.scope for clone in again] == ["clone_0_1/", "clone_1_1/"]
    assert len(v1.global_variables()) == 2


def test_each_clone_takes_its_own_batch_from_an_iterator(graph, evaluate):
    dataset = tf.data.Dataset.range(6).batch(2)
    iterator = v1.data.make_one_shot_iterator(dataset)
    config = DeploymentConfig(num_clones=3, clone_on_cpu=True)
    clones = create_clones(config, lambda batches: batches.get_next(), [iterator])
    rows = evaluate([clone.outputs for clone in clones])
    assert sorted(np.concatenate(rows)) == list(range(6))


def test_local_variables_belong_to_their_clone(graph):
    def model():
        return v1.metrics.mean(tf.ones([2]))[0]

    clones_of(model, num_clones=2)
    assert len(v1.local_variables()) == 4
    assert {variable.device for variable in v1.local_variables()} == {CPU}


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


@pytest.mark.parametrize("make", ["get_variable", "Variable"])
def test_a_clone_with_different_variables_raises_with_both_lists(graph, make):
    calls = []

    def model():
        calls.append(None)
        for index in range(len(calls)):
            if make == "Variable":
                tf.Variable([1.0], name=f"v{index}")
            else:
                v1.get_variable(f"v{index}", shape=[1])

    with pytest.raises(
        ValueError,
        match=r"clone 1 \(/device:GPU:1\) disagrees with clone 0 \(/device:GPU:0\): it also makes "
        r"v1.*clone 0 \S+ made \[v0[^]]*\]; clone 1 \S+ made \[v0.*, v1.*\]\. The model function",
    ):
        clones_of(model, num_clones=2)
