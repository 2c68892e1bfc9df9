"""Properties of every network: names, collections, K-FAC's layers, one step on two towers."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from examples.slim.networks import factory

v1 = tf.compat.v1
Keys = v1.GraphKeys
NAMES = list(factory.NETWORKS)
FAST = ["lenet"]
"""Network with the layers of most others; depthwise ones are on two towers in `test_layers`."""
DEEPER = ["resnet_v1_34", "resnet_v1_50", "resnet_v2_34", "resnet_v2_50", "vgg_16"]
"""Networks that have more of the same blocks than another one."""
LARGEST = ["inception_v3"]
"""Its own tests check its shapes, heads and parameters."""
SMALL = 1 / 16
CLASSES = 3


def slow(names):
    """All networks; those that are named are marked as slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in names)) for name in NAMES]


def image_size(name):
    return 75 if name == "inception_v3" else 12


def test_an_unknown_network_and_an_unknown_setting_are_refused(graph):
    known = (
        "cifarnet, inception_v3, lenet, mobilenet_v1, resnet_v1_18, resnet_v1_34, resnet_v1_50, "
        "resnet_v2_18, resnet_v2_34, resnet_v2_50, vgg_11, vgg_16"
    )
    with pytest.raises(ValueError, match=rf"no network 'alexnet'; take one of {known}\."):
        factory.get_network_fn("alexnet", 10)
    with pytest.raises(TypeError, match="depth_multipler"):
        factory.get_network_fn("lenet", 10)(tf.zeros([1, 28, 28, 1]), depth_multipler=0.5)


@pytest.mark.parametrize("name", slow(DEEPER + LARGEST))
def test_network_in_training(graph, name):
    v1.train.create_global_step()
    size = image_size(name)
    network_fn = factory.get_network_fn(name, CLASSES, weight_decay=1e-4, is_training=True)
    assert network_fn.__name__ == name
    assert network_fn.default_image_size >= 28
    images = v1.placeholder(tf.float32, [4, size, size, 3])
    logits, ends = network_fn(images, depth_multiplier=SMALL)

    assert logits is ends["Logits"]
    assert logits.shape.as_list() == ends["Predictions"].shape.as_list() == [4, CLASSES]
    assert ("AuxLogits" in ends) == (name == "inception_v3")
    check_collections(name)
    check_layers(ends)


def check_collections(name):
    """All variables are the network's; what decays and what moves is as often as there are."""
    variables = v1.get_collection(Keys.MODEL_VARIABLES)
    names = [v.op.name for v in variables]
    assert all(each.startswith(f"{name}/") for each in names)
    assert {f"{name}/logits/weights", f"{name}/logits/biases"} < set(names)
    step = v1.train.get_global_step()
    assert [v for v in v1.global_variables() if v is not step] == variables
    is_moving = [each.rsplit("/")[-1].startswith("moving_") for each in names]
    assert [not v.trainable for v in variables] == is_moving
    assert len(v1.get_collection(Keys.UPDATE_OPS)) == sum(is_moving)
    decaying = [each for each in names if each.endswith("/weights")]
    assert len(v1.get_collection(Keys.REGULARIZATION_LOSSES)) == len(decaying)


def check_layers(ends):
    """K-FAC's scanner finds each layer with all of its parameters."""
    layers = kfac.graph_layer_collection()
    layers.register_categorical_predictive_distribution(ends["Logits"], name="logits")
    if "AuxLogits" in ends:
        layers.register_categorical_predictive_distribution(ends["AuxLogits"], name="aux")
    layers.auto_register_layers()
    found = {
        tuple(v.op.name for v in tf.nest.flatten(decision.params)): decision.text.split(",")[0]
        for decision in layers.decisions
    }
    assert found == expected_layers()


def expected_layers():
    """The layers that the names of the variables tell of: names of parameters -> kind."""
    expected = {}
    ranks = {v.op.name: v.shape.rank for v in v1.trainable_variables()}
    for name, rank in ranks.items():
        scope, _, parameter = name.rpartition("/")
        biases = (f"{scope}/biases",) if f"{scope}/biases" in ranks else ()
        if parameter == "weights":
            expected[(name, *biases)] = {2: "dense layer", 4: "2-D convolution"}[rank]
        elif parameter == "depthwise_weights":
            expected[(name,)] = "depthwise convolution"
        elif parameter == "gamma":
            kind = "scale and shift of a fused batch normalization"
            expected[(name, f"{scope}/beta")] = kind
    return expected


def loss_of(name, images, labels, **settings):
    """The loss of all heads of a small network, with what decays."""
    network_fn = factory.get_network_fn(name, CLASSES, weight_decay=1e-3, **settings)
    _, ends = network_fn(images, dropout_keep_prob=1.0, depth_multiplier=SMALL)
    for head in {"Logits", "AuxLogits"} & set(ends):
        v1.losses.sparse_softmax_cross_entropy(labels, ends[head])
    return v1.losses.get_total_loss()


@pytest.mark.parametrize("name", slow(set(NAMES) - set(FAST)))
def test_two_towers_make_the_step_of_one(name):
    """With fixed statistics: those of the batch are each tower's own."""
    random = np.random.RandomState(0)
    size = image_size(name)
    images = random.randn(4, size, size, 3).astype(np.float32)
    labels = random.randint(0, CLASSES, 4)

    def model_fn(features, labels, mode):
        loss = loss_of(name, features, labels)
        optimizer = replicate.TowerOptimizer(lambda: v1.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    check = replicate.check_replication(
        model_fn,
        lambda: tf.data.Dataset.from_tensors((images, labels)),
        ["/cpu:0", "/cpu:1"],
        config=replicate.RunConfig(session_config=without_graph_optimization()),
        output=None,
    )
    assert check.ok(), check
    assert len(check.gradients) >= 8


@pytest.mark.parametrize("name", slow(set(NAMES) - {"resnet_v2_18"}))
def test_every_parameter_moves_and_nothing_overflows(graph, name):
    step = v1.train.create_global_step()
    random = np.random.RandomState(0)
    images = random.randn(4, 75, 75, 3) if name == "inception_v3" else random.randn(4, 32, 32, 3)
    labels = random.randint(0, CLASSES, 4)
    loss = loss_of(name, tf.constant(images, tf.float32), labels, is_training=True)
    train_op = v1.train.AdamOptimizer(1e-4).minimize(loss, step)
    weights = {v.op.name: v for v in v1.trainable_variables()}
    with v1.Session(config=without_graph_optimization()) as session:
        session.run(v1.global_variables_initializer())
        before = session.run(weights)
        losses = [session.run([loss, train_op])[0] for _ in range(2)] + [session.run(loss)]
        after = session.run(weights)
    assert np.isfinite(losses).all()
    assert [each for each in weights if np.array_equal(before[each], after[each])] == []


def without_graph_optimization():
    """A session that runs the graph as it is: each graph runs once, so optimizing takes longer."""
    config = v1.ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config
