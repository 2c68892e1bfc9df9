import pytest
import tensorflow as tf

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


def test_finalize_needs_layers_and_losses(collection, weights):
    with pytest.raises(ValueError, match=r"has no registered layer"):
        collection.finalize()
    collection.register_fully_connected(weights, *dense_tensors())
    with pytest.raises(ValueError, match=r"has no registered loss"):
        collection.finalize()
    assert not collection.is_final


def test_towers_that_disagree(collection, weights, kernel):
    collection.register_fully_connected(weights, *dense_tensors())
    conv(collection, kernel)
    conv(collection, kernel, reuse=True)
    register_loss(collection, name="a")
    with pytest.raises(ValueError, match=r"2 towers.*layer 'fc/w' by 1, loss 'a' by 1"):
        collection.finalize()


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
    if how == "once":
        collection.register_fully_connected(weights, x, pair[0])
    elif how == "list":
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
    use_twice(collection, weights, "once")
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
