import inspect
import warnings

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac import layer_collection

v1 = tf.compat.v1


def register_dense(collection):
    params = v1.get_variable("fc/w", [3, 2]), v1.get_variable("fc/b", [2])
    collection.register_fully_connected(params, tf.ones([4, 3]), tf.ones([4, 2]))


def test_graph_collection_is_one_per_graph_and_name(graph):
    first = kfac.graph_layer_collection()
    assert kfac.graph_layer_collection() is first
    assert kfac.graph_layer_collection("critic") is not first
    with tf.Graph().as_default():
        assert kfac.graph_layer_collection() is not first


def test_graph_collection_stays_out_of_meta_graphs(graph, own_log):
    with kfac.graph_layer_collection().as_default() as collection:
        register_dense(collection)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        meta_graph = v1.train.export_meta_graph()
    assert sorted(meta_graph.collection_def) == ["trainable_variables", "variables"]
    assert not own_log.records


def test_config_of_the_graph_collection(graph):
    config = kfac.CurvatureConfig(eigen_threshold=2)
    collection = kfac.graph_layer_collection(config=config)
    assert collection.config == config
    assert kfac.graph_layer_collection() is collection
    assert kfac.graph_layer_collection(config=kfac.CurvatureConfig(eigen_threshold=2)) is collection
    with pytest.raises(ValueError, match=r"collection 'default' with.*it was made in this graph"):
        kfac.graph_layer_collection(config=kfac.CurvatureConfig())


def test_default_collection(graph):
    get, set_default = (
        layer_collection.get_default_layer_collection,
        layer_collection.set_default_layer_collection,
    )
    with pytest.raises(ValueError, match=r"There is no default layer collection"):
        get()
    first, second = kfac.LayerCollection(), kfac.LayerCollection()
    with first.as_default(), second.as_default() as inner:
        assert get() is second is inner
    with pytest.raises(KeyError), first.as_default():
        raise KeyError
    with pytest.raises(ValueError, match=r"There is no default layer collection"):
        get()
    set_default(first)
    assert get() is first
    with pytest.raises(ValueError, match=r"'LayerCollection' is. Call set_default"):
        set_default(second)
    set_default(None)
    with pytest.raises(ValueError, match=r"There is no default layer collection"):
        get()


DEFAULTS = {
    "generic": ("diagonal", "full"),
    "fully_connected": ("kron", "ekfac"),
    "conv2d": ("kron", "kron_sua"),
    "fully_connected_multi": ("kron_indep", "kron_series_2"),
    "conv2d_multi": ("kron_indep", "kron_indep"),
    "scale_and_shift": ("full", "diagonal"),
}


def test_default_approximations(graph):
    collection = kfac.LayerCollection()
    for kind, (first, other) in DEFAULTS.items():
        name = f"default_{kind}_approximation"
        assert getattr(collection, name) == first
        setter = getattr(collection, f"set_{name}")
        setter(other)
        with pytest.raises(ValueError, match=rf"approximation of {kind} layers: approx='x'"):
            setter("x")
        assert getattr(collection, name) == other
        assert getattr(kfac.LayerCollection(), name) == first


def test_methods_have_the_arguments_of_the_functions_that_they_call(graph):
    collection = kfac.LayerCollection()
    arguments = inspect.signature(collection.register_fully_connected).parameters
    expected = ["params", "inputs", "outputs", "approx", "dense_inputs", "reuse"]
    assert list(arguments) == expected
    assert collection.register_fully_connected.__name__ == "register_fully_connected"
    assert "ids [batch]" in collection.register_fully_connected.__doc__


def weight(name, *shape):
    value = np.random.RandomState(len(name)).randn(*shape) / np.sqrt(np.prod(shape[:-1]))
    return v1.get_variable(name, initializer=tf.constant(value.astype("f")))


def build_and_register_many_kinds(collection, images, ids, labels):
    """A network with seven kinds of blocks; returns its mean loss."""
    kernel, bias = weight("conv/w", 3, 3, 2, 4), v1.get_variable("conv/b", [4])
    convolved = tf.nn.conv2d(images, kernel, 1, "SAME") + bias
    collection.register_conv2d((kernel, bias), (1, 1, 1, 1), "SAME", images, convolved)
    depthwise, pointwise = weight("depthwise/w", 3, 3, 4, 1), weight("pointwise/w", 1, 1, 4, 4)
    a = tf.nn.relu(convolved)
    mixed = tf.nn.depthwise_conv2d(a, depthwise, (1, 2, 2, 1), "SAME")
    out = tf.nn.conv2d(mixed, pointwise, 1, "VALID")
    collection.register_separable_conv2d(
        depthwise, pointwise, a, mixed, out, (1, 2, 2, 1), "SAME", approx="kron_sua"
    )
    table = weight("embedding", 10, 16)
    looked_up = tf.nn.embedding_lookup(table, ids)
    collection.register_fully_connected(table, ids, looked_up, dense_inputs=False)
    flat = tf.reshape(tf.nn.tanh(out), [-1, 16]) + looked_up
    mean, variance = tf.nn.moments(flat, [1], keepdims=True)
    normal = (flat - mean) * tf.math.rsqrt(variance + 1e-3)
    scale = v1.get_variable("norm/scale", initializer=tf.ones([16]))
    shift = v1.get_variable("norm/shift", initializer=tf.zeros([16]))
    state = normal * scale + shift
    collection.register_layer_norm((scale, shift), normal, state)
    recurrent, inputs, outputs = weight("rnn/w", 16, 16), [], []
    for _ in range(3):
        inputs.append(state)
        outputs.append(tf.matmul(state, recurrent))
        state = tf.tanh(outputs[-1])
    collection.register_fully_connected_multi(recurrent, inputs, outputs, approx="kron_series_2")
    gain = v1.get_variable("gain", initializer=tf.ones([16]))
    collection.register_generic(gain, 8)
    last = weight("fc/w", 16, 4)
    logits = tf.matmul(state * gain, last)
    collection.register_fully_connected(last, state * gain, logits, approx="diagonal")
    collection.register_softmax_cross_entropy_loss(logits, name="logits")
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


@pytest.mark.parametrize("behavior", ["v1"], indirect=True)
def test_many_kinds_of_layers_train_in_the_behavior_of_tensorflow_1(behavior, graph, session):
    random = np.random.RandomState(0)
    images = tf.constant(random.randn(8, 4, 4, 2).astype("f"))
    ids, labels = (tf.constant(random.randint(0, n, 8)) for n in (10, 4))
    collection = kfac.LayerCollection()
    loss = build_and_register_many_kinds(collection, images, ids, labels)
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=3, learning_rate=0.05, damping=0.05, layer_collection=collection,
        norm_constraint=0.01,
    )  # fmt: skip
    train = optimizer.minimize(loss, var_list=collection.registered_variables)
    session.run(v1.global_variables_initializer())
    losses = [session.run([loss, train])[0] for _ in range(16)]
    assert losses[-1] < 0.6 * losses[0]
    assert session.run(optimizer.skipped_steps) == 0
    assert len({type(block) for block in collection.get_blocks()}) == 7


def required(function):
    """The names of the arguments that a function needs."""
    arguments = inspect.signature(function).parameters.values()
    return [each.name for each in arguments if each.default is each.empty]


@pytest.mark.parametrize(
    "name", [n for n in dir(kfac.LayerCollection) if n.startswith("register_")]
)
def test_registration_of_what_is_no_tensor_is_told_with_its_type(graph, name):
    """Of numbers for all arguments, and for the tensors beside parameters that are right."""
    layers = kfac.LayerCollection()
    register = getattr(layers, name)
    names = required(register)
    rank = 2 if "connected" in name else 3 if "conv1d" in name else 4
    weight = v1.get_variable("weight", [1] * rank)
    known = {"strides": [1] * rank, "padding": "SAME"}
    known |= dict.fromkeys(("params", "depthwise_params", "pointwise_params"), weight)
    if name in ("register_generic", "register_block"):  # Their numbers may be right.
        known = {}
    for given in ({}, known):
        arguments = [given.get(each, 3) for each in names]
        with pytest.raises(TypeError, match=r"Cannot register .*(with int|3 as a block)"):
            register(*arguments)
    assert not layers.fisher_blocks
    assert not layers.losses


def test_a_layer_needs_a_parameter(graph):
    with pytest.raises(ValueError, match=r"with the parameters \[\]: there are none"):
        kfac.LayerCollection().register_fully_connected([], tf.ones([2, 3]), tf.ones([2, 3]))
