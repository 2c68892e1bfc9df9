"""The table of layers, and the checks that all of a model is in it."""

import pytest
import tensorflow as tf

import kfac
from kfac import fisher_factors

v1 = tf.compat.v1


def dense_tensors():
    return tf.ones([4, 3]), tf.ones([4, 2])


def register_loss(collection, **kwargs):
    collection.register_softmax_cross_entropy_loss(
        tf.zeros([4, 2]), targets=tf.zeros([4], tf.int64), **kwargs
    )


def conv(collection, kernel, strides=(1, 1, 1, 1), padding="SAME", **kwargs):
    images = tf.ones([2, 8, 8, 1])
    collection.register_conv2d(kernel, strides, padding, images, tf.ones([2, 8, 8, 4]), **kwargs)


# Registration.
def test_parameters_in_a_list(collection, weights):
    collection.register_fully_connected(list(weights), *dense_tensors())
    assert list(collection.fisher_blocks) == [weights]
    assert collection.registered_variables == weights


def test_tensors_may_stand_in_for_parameters(collection):
    params = (tf.ones([3, 2], name="w"), tf.ones([2], name="b"))
    collection.register_fully_connected(params, *dense_tensors())
    assert collection.registered_variables == params


def test_second_tower(collection, weights):
    for reuse in (False, True, v1.AUTO_REUSE):
        collection.register_fully_connected(weights, *dense_tensors(), reuse=reuse)
    with v1.variable_scope("", reuse=True):
        collection.register_fully_connected(weights, *dense_tensors())
    assert [block.num_registered_towers for block in collection.get_blocks()] == [4]


def test_errors_leave_the_collection(collection, weights, kernel):
    def dense(params, **kwargs):
        collection.register_fully_connected(params, *dense_tensors(), **kwargs)

    other = v1.get_variable("other", [3, 2])
    with pytest.raises(ValueError, match=r"Registered are: none \(.*graph_layer_collection"):
        dense(weights, reuse=True)
    dense(weights)
    conv(collection, kernel)
    before = {key: block.num_registered_towers for key, block in collection.fisher_blocks.items()}
    for call, message in (
        (lambda: dense(other, approx="full"), "layer 'other': approx='full'. Accepted are 'kron'"),
        (lambda: dense(weights, reuse=False), "'fc/w': it is already in LayerCollection"),
        (lambda: dense(weights[0]), "fc/w was already registered with another layer"),
        (
            lambda: dense(other, reuse=True),
            r"reuse is True, and no layer.*\(other\)\. Registered are: \(fc/w, fc/b\), \(conv/w\)",
        ),
        (lambda: dense(kernel, reuse=True), "as ConvKFCBasicFB.*now as FullyConnected"),
        (
            lambda: conv(collection, kernel, strides=(1, 2, 2, 1), reuse=True),
            "All towers must register the same layer",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match=r"layer 'other' with list|layer 'other' with float: 1.0"):
        collection.register_fully_connected(other, [[1.0]], tf.ones([4, 2]))
    with tf.Graph().as_default():
        elsewhere = v1.get_variable("w", [3, 2])
        with pytest.raises(ValueError, match=r"'w': its tensors are in another graph than Layer"):
            dense(elsewhere)
    after = {key: block.num_registered_towers for key, block in collection.fisher_blocks.items()}
    assert after == before


def test_partitioned_variable_is_named(collection, weights, kernel):
    parts = v1.get_variable("parts", [3, 2], partitioner=v1.fixed_size_partitioner(3))
    loss = tf.reduce_sum(tf.convert_to_tensor(parts))
    register_loss(collection)
    optimizer = kfac.KfacOptimizer(0.1, 0.1, collection)
    images = tf.ones([2, 8, 8, 1])
    for call in (
        lambda: collection.register_fully_connected((parts, weights[1]), *dense_tensors()),
        lambda: collection.register_generic(parts, 4),
        lambda: conv(collection, parts),
        lambda: collection.register_separable_conv2d(
            kernel, parts, images, images, images, (1, 1, 1, 1), "SAME"
        ),
        lambda: collection.define_linked_parameters(parts),
        lambda: collection.auto_register_layers([parts]),
        lambda: collection.check_registration([parts]),
        lambda: optimizer.minimize(loss, var_list=[parts]),
        lambda: optimizer.apply_gradients([(tf.ones([3, 2]), parts)]),
        lambda: kfac.CurvatureMatrixVectorProductComputer(collection, [parts]),
    ):
        with pytest.raises(TypeError, match="parameter 'parts' is partitioned into 3 variables"):
            call()
    with pytest.raises(TypeError, match="with NoneType None among the parameters"):
        collection.register_generic(None, 4)
    assert not collection.fisher_blocks


# The end of registration.
def test_finalize_needs_all_and_ends_registration(collection, weights, kernel):
    with pytest.raises(ValueError, match=r"has no registered layer"):
        collection.finalize()
    collection.register_fully_connected(weights, *dense_tensors())
    with pytest.raises(ValueError, match=r"has no registered loss"):
        collection.finalize()
    register_loss(collection, name="a")
    register_loss(collection, name="a", reuse=True)
    with pytest.raises(ValueError, match=r"2 towers.*layer 'fc/w' by 1"):
        collection.finalize()
    assert not collection.is_final
    collection.register_fully_connected(weights, *dense_tensors(), reuse=True)
    collection.finalize()
    for late in (
        lambda: conv(collection, kernel),
        lambda: collection.register_fully_connected(weights, *dense_tensors(), reuse=True),
        lambda: register_loss(collection, name="b"),
        collection.finalize,
    ):
        with pytest.raises(ValueError, match=r"is finalized"):
            late()


def test_subgraph_of_the_losses(collection, weights):
    w, b = weights
    x, other = tf.ones([4, 3]), v1.get_variable("other", [2])
    collection.register_fully_connected(weights, x, x @ w + b)
    collection.register_squared_error_loss(x @ w)
    assert collection.subgraph.filter_list([w, b, other]) == [w]
    collection.register_squared_error_loss(b)
    assert collection.subgraph.filter_list([w, b, other]) == [w, b]
    collection.finalize()
    assert collection.subgraph is collection.subgraph


# Factors.
def test_equal_factors_are_shared(collection):
    x = tf.ones([4, 3])
    cls = fisher_factors.FullyConnectedKroneckerFactor
    first = collection.make_or_get_factor(cls, (((x,),), True, ("",)), "a")
    again = collection.make_or_get_factor(cls, (((x,),), True, ("",)), "b")
    other = collection.make_or_get_factor(cls, (((x,),), False, ("",)), "c")
    assert first is again
    assert first.name == "a"
    assert collection.get_factors() == (first, other)
    assert list(collection.fisher_factors) == [
        (cls, (((x,),), True, ("",))),
        (cls, (((x,),), False, ("",))),
    ]
    with pytest.raises(TypeError, match=r"unhashable"):
        collection.make_or_get_factor(cls, ([x], True), "a")


# Linked parameters.
def test_linked_approximation_is_between_the_explicit_one_and_the_default(collection, weights):
    collection.define_linked_parameters(weights, "kron_in_diag")
    assert collection.linked_parameters == {frozenset(weights): "kron_in_diag"}
    collection.register_fully_connected(weights[::-1], *dense_tensors())
    explicit, default, other = (kfac.LayerCollection() for _ in range(3))
    explicit.define_linked_parameters(weights, "kron_in_diag")
    explicit.register_fully_connected(weights, *dense_tensors(), approx="kron")
    default.define_linked_parameters(weights)
    default.register_fully_connected(weights, *dense_tensors())
    assert collection.get_blocks()[0].settings[0].diagonal_input
    assert explicit.get_blocks()[0].settings == default.get_blocks()[0].settings == ()
    other.define_linked_parameters(weights, "kron_sua")
    with pytest.raises(ValueError, match=r"layer 'fc/w': approx='kron_sua'"):
        other.register_fully_connected(weights, *dense_tensors())
    assert not other.fisher_blocks


def test_linking_what_is_linked_or_registered_otherwise(collection, weights, kernel):
    collection.define_linked_parameters(weights)
    for group in (weights, weights[0], (weights[1], kernel)):
        with pytest.raises(ValueError, match=r"already belong to \(.*fc/.*\)"):
            collection.define_linked_parameters(group)
    conv(collection, kernel)
    other = v1.get_variable("other", [4])
    with pytest.raises(ValueError, match=r"already belong to \(conv/w\)"):
        collection.define_linked_parameters((kernel, other))
    assert list(collection.linked_parameters) == [frozenset(weights)]
    collection.define_linked_parameters(kernel)


# All of a model is registered.
def test_check_registration(collection, weights, kernel):
    collection.register_fully_connected(weights, *dense_tensors())
    collection.check_registration(weights)
    other = v1.get_variable("other", [2])
    with pytest.raises(ValueError, match=r"cannot train conv/w, other: no layer.*register_conv2d"):
        collection.check_registration([kernel, *weights, other])
    with pytest.raises(ValueError, match=r"fewer variables.*fc/b would be left out"):
        collection.check_registration(weights[:1])


def use_twice(collection, weights, how):
    """Registers a dense layer that the loss depends on twice."""
    w, b = weights
    x = tf.ones([4, 3])
    pair = [x @ w + b, (x + 1) @ w + b]
    if how == "list":
        collection.register_fully_connected_multi(weights, [x, x + 1], pair)
    elif how == "stacked":
        stacked = tf.stack(pair)
        pair = tf.unstack(stacked)
        collection.register_fully_connected_multi(weights, tf.ones([8, 3]), stacked, num_uses=2)
    elif how == "generic":
        for param in weights:
            collection.register_generic(param, 4)
    else:
        for output, reuse in zip(pair, (False, True), strict=True):
            collection.register_fully_connected(weights, x, output, reuse=reuse)
    collection.register_squared_error_loss(pair[0] + pair[1])


@pytest.mark.parametrize("how", ["list", "stacked", "generic", "tower after tower"])
def test_all_uses_are_registered(collection, weights, how):
    use_twice(collection, weights, how)
    collection.check_registration(weights)


def test_use_that_is_not_registered(collection, weights):
    w, b = weights
    x = tf.ones([4, 3])
    output = x @ w + b
    collection.register_fully_connected(weights, x, output)
    collection.register_squared_error_loss(output + (x + 1) @ w + b)
    with pytest.raises(ValueError, match=r"of fc/w: the losses depend on 2 uses of it, and 1 are"):
        collection.check_registration(weights)


def test_use_of_a_registration_that_was_undone(collection, kernel):
    images = tf.ones([2, 8, 8, 1])
    with pytest.raises(ValueError, match=r"'pointwise': approx='none'"):
        collection.register_separable_conv2d(
            kernel, v1.get_variable("pointwise", [1, 1, 4, 2]), images, tf.ones([2, 8, 8, 4]),
            tf.ones([2, 8, 8, 2]), (1, 1, 1, 1), "SAME", approx="none",
        )  # fmt: skip
    output = tf.nn.conv2d(images, kernel, 1, "SAME")
    register_loss(collection)
    collection.register_squared_error_loss(output + tf.nn.conv2d(images, kernel, 1, "SAME"))
    conv(collection, kernel)
    with pytest.raises(ValueError, match=r"of conv/w: the losses depend on 2 uses of it, and 1"):
        collection.check_registration([kernel])
