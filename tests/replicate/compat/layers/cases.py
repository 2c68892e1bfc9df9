"""Programs of tf.layers, and all that one of them makes: names, shapes, collections and numbers.

Run as a program, `cases.py KIND PROGRAMS`, it prints that as JSON. The kind is that of variables,
resource or reference, for layers of tf-keras, and ours_resource or ours_reference for ours.
"""

import json
import os
import sys
import zlib

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def images(*shape, dtype=tf.float32):
    return v1.placeholder(dtype, shape)


def penalty(weights):
    return 0.1 * tf.reduce_sum(tf.square(weights))


def known(value):
    return v1.placeholder_with_default(value, [], name="training")


@case
def dense(layers):
    rows = images(None, 5)
    regularized = layers.dense(
        rows,
        4,
        tf.nn.relu,
        kernel_regularizer=penalty,
        bias_regularizer=penalty,
        activity_regularizer=penalty,
    )
    return [
        layers.dense(rows, 3),
        layers.dense(regularized, 2, use_bias=False, name="out"),
        layers.dense(images(None, 7, 5), 3),
        layers.dense(images(2, 7, 5), 3, activation=tf.nn.tanh),
        layers.dense(images(None, None, 4, 5), 3, activation="softmax", name="a/b"),
        layers.dense(images(None, 5, dtype=tf.float64), 3, trainable=False),
        layers.dense(images(None, 4), 3, kernel_initializer="he_normal", bias_initializer="ones"),
    ]


@case
def rows_and_dropout(layers):
    rows = images(4, 5)
    flat = [images(None, 3, 4), images(2, 3, 4), images(None, None, 4), images(None)]
    return [
        *map(layers.flatten, flat),
        layers.flatten(images(2, 3, 4), data_format="channels_first"),
        layers.dropout(rows),
        layers.dropout(rows, 0.3, training=known(False)),
        layers.dropout(rows, noise_shape=(None, 1), training=False, name="named"),
    ]


def windows(padding, data_format):
    def build(layers):
        def inputs(*sizes):
            last = data_format == "channels_last"
            return images(*((2, *sizes, 4) if last else (2, 4, *sizes)))

        same = {"padding": padding, "data_format": data_format}
        outputs = []
        for strides in (1, 2):
            step = {"strides": strides, **same}
            outputs += [
                layers.conv1d(inputs(9), 3, 3, activation=tf.nn.relu, **step),
                layers.conv2d(inputs(9, 8), 3, (3, 2), kernel_regularizer=penalty, **step),
                layers.separable_conv1d(inputs(9), 3, 3, depth_multiplier=2, **step),
                layers.separable_conv2d(inputs(9, 8), 3, 3, activation=tf.nn.relu, **step),
                layers.conv2d_transpose(inputs(5, 4), 3, 3, activation=tf.nn.relu, **step),
            ]
            if data_format == "channels_last":  # On CPUs TensorFlow has no others.
                outputs += [
                    layers.conv3d(inputs(5, 4, 3), 3, 2, **step),
                    layers.conv3d_transpose(inputs(3, 4, 3), 3, 3, use_bias=False, **step),
                ]
        if data_format == "channels_last":
            outputs += [
                layers.conv2d(inputs(9, 8), 3, 3, dilation_rate=(2, 3), use_bias=False, **same),
                layers.conv1d(inputs(9), 3, 3, dilation_rate=2, **same),
                layers.separable_conv2d(inputs(9, 8), 3, 3, dilation_rate=2, **same),
                layers.separable_conv1d(inputs(9), 3, 3, dilation_rate=2, **same),
            ]
        for kind in ("max_pooling", "average_pooling"):
            pools = [getattr(layers, f"{kind}{rank}d") for rank in (1, 2, 3)]
            outputs += [
                pools[0](inputs(9), 3, 2, **same),
                pools[1](inputs(9, 8), (3, 2), (2, 1), name=f"{kind}_named", **same),
                pools[2](inputs(5, 4, 3), 2, 2, **same),
            ]
        return outputs

    CASES[f"windows_{padding}_{data_format}"] = build


for _padding in ("valid", "SAME"):
    for _data_format in ("channels_last", "channels_first"):
        windows(_padding, _data_format)


@case
def causal(layers):
    return [layers.conv1d(images(2, 9, 3), 5, 3, padding="causal", dilation_rate=2)]


def normalizations(name, shapes, **settings):
    def build(layers):
        given = dict(settings)
        if "when" in given:
            given["training"] = known(given.pop("when"))
        return [layers.batch_normalization(images(*shape), **given) for shape in shapes]

    CASES[f"batch_normalization_{name}"] = build


ROWS, STEPS, IMAGES, VIDEOS = (8, 6), (8, 7, 6), (8, 5, 4, 6), (8, 3, 4, 2, 6)
ALL = (ROWS, STEPS, IMAGES, VIDEOS)
normalizations("training", ALL, training=True)
normalizations("inference", ALL)
normalizations("told_training", ALL, when=True, momentum=0.9)
normalizations("told_inference", ALL, when=False)
normalizations("unfused", ALL, training=True, fused=False, epsilon=1e-5)
normalizations("unfused_told", ALL, when=True, fused=False)
normalizations("fused", (IMAGES,), training=1, fused=True)
normalizations("axis", ((8, 6, 5),), axis=1, training=True)
normalizations("axis_first", ((8, 6, 5, 4),), axis=1, training=True)
normalizations("axes", (IMAGES,), axis=[1, 3], training=True)
normalizations("unscaled", ALL, scale=False, training=True)
normalizations("uncentered", ALL, center=False, when=True)
normalizations("frozen", (ROWS, IMAGES), trainable=False, training=True)
normalizations(
    "regularized", (ROWS,), training=True, beta_regularizer=penalty, gamma_regularizer=penalty
)
LIMITS = {"rmin": 0.5, "rmax": 2.0, "dmax": 1.0}
normalizations("renorm", (ROWS, IMAGES), renorm=True, training=True)
normalizations("renorm_told", (ROWS, STEPS), renorm=True, when=True, renorm_clipping=LIMITS)
normalizations("renorm_inference", (ROWS,), renorm=True, when=False, renorm_clipping=LIMITS)
normalizations("virtual", (ROWS, IMAGES), virtual_batch_size=4, training=True, fused=False)
normalizations("virtual_told", (STEPS,), virtual_batch_size=2, when=False)
normalizations(
    "adjusted", (ROWS, IMAGES), training=True, adjustment=lambda shape: (tf.constant(2.0), 0.5)
)


@case
def batch_normalization_half(layers):
    inputs = images(4, 3, dtype=tf.float16)
    return [tf.identity(layers.batch_normalization(inputs, training=True), name="half")]


@case
def repeated(layers):
    normalize = layers.BatchNormalization()
    regularize = layers.Dense(3, kernel_regularizer=penalty, activity_regularizer=penalty)
    rows = images(4, 3)
    first, second = normalize(rows, training=True), normalize(images(4, 3), training=True)
    outputs = [first, second, normalize.apply(rows), regularize(rows), regularize(images(2, 3))]
    counts = [
        len(normalize.updates),
        len(normalize.get_updates_for(rows)),
        len(normalize.get_updates_for(None)),
        len(regularize.get_losses_for(rows)),
        len(regularize.get_losses_for(None)),
    ]
    return [*outputs, tf.constant(counts, name="counts")]


@case
def scopes(layers):
    rows, outputs = images(2, 5), []
    with v1.variable_scope("a"):
        shared = layers.Dense(3)
        outputs += [layers.dense(rows, 3), layers.dense(rows, 3, name="n"), shared(rows)]
        with v1.variable_scope("b"):
            outputs += [layers.dense(rows, 3), layers.dense(rows, 3)]
    with v1.variable_scope("a", reuse=True):
        outputs += [layers.dense(rows, 3), layers.dense(rows, 3, name="n")]
    for _ in range(2):
        with v1.variable_scope("c", reuse=v1.AUTO_REUSE):
            outputs += [
                layers.dense(rows, 3, kernel_regularizer=penalty),
                layers.dense(rows, 4, name="n"),
                layers.batch_normalization(rows),
                layers.conv1d(images(2, 5, 2), 3, 3),
            ]
    for reuse in (None, True, v1.AUTO_REUSE):
        outputs.append(layers.dense(rows, 3, name="k", reuse=reuse))
    with tf.name_scope("ns"):
        outputs += [layers.dense(rows, 3), layers.dense(rows, 3, name="q")]
        other = layers.Dense(3)
    outputs += [other(rows), other(rows), shared(rows)]
    with v1.variable_scope("late"):
        outputs += [other(rows), layers.Dense(3, name="named")(rows)]
        outputs += [layers.max_pooling1d(images(2, 5, 2), 2, 2)]
    given = layers.Dense(3)
    outputs += [given(rows, scope="given")]
    for reuse in (v1.AUTO_REUSE, True):
        outputs.append(layers.Dense(3, _scope="early", _reuse=reuse)(rows))
    with layers.experimental.keras_style_scope():
        alone = [layers.Dense(3, name="alone") for _ in range(2)]
    outputs += [each(rows) for each in alone]
    names = [each.name for each in (shared, other, given, *alone)]
    names += [each.scope_name for each in (shared, other, given)]
    return [*outputs, tf.constant(names, name="names")]


@case
def settings_of_scopes(layers):
    seen = []

    def watched(getter, name, *args, **kwargs):
        seen.append(f"{name} {sorted(kwargs)}")
        return getter(name, *args, **kwargs)

    rows = images(2, 6)
    scope = {"custom_getter": watched, "regularizer": penalty, "partitioner": None}
    with v1.variable_scope("s", initializer=v1.constant_initializer(2.0), **scope):
        outputs = [layers.dense(rows, 3), layers.batch_normalization(rows, training=True)]
    with v1.variable_scope("p", partitioner=v1.fixed_size_partitioner(2)):
        parts = layers.Dense(4, kernel_regularizer=penalty)
        outputs += [
            parts(rows),
            layers.batch_normalization(rows, training=True),
            layers.conv2d(images(2, 4, 4, 2), 3, 2),
            layers.separable_conv2d(images(2, 4, 4, 2), 3, 2),
        ]
    seen += [each.name for each in parts.weights]
    return [*outputs, tf.constant(seen, name="seen")]


@case
def own_layers(layers):
    class MyOwnLayer2D(layers.Layer):
        def __init__(self, size, **kwargs):
            super().__init__(**kwargs)
            self.size = size

        def build(self, _):
            ones, zeros = v1.ones_initializer(), v1.zeros_initializer()
            self.scale = self.add_weight("scale", [self.size], initializer=ones)
            self.bias = self.add_variable(
                "bias", [self.size], initializer=zeros, regularizer=penalty
            )
            self.count = self.add_weight("count", [], initializer=zeros, trainable=False)
            self.built = True

        def call(self, inputs, factor=1.0):
            self.add_update(v1.assign_add(self.count, 1.0))
            self.add_loss(tf.reduce_sum(inputs))
            return factor * inputs * self.scale + self.bias

    class Block(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.parts = [layers.Dense(3, name="b"), layers.Dense(2)]

        def call(self, inputs):
            for part in self.parts:
                inputs = part(inputs)
            return layers.dense(inputs, 2, name="inner")

    rows = images(2, 5)
    own, frozen = MyOwnLayer2D(5), MyOwnLayer2D(5, name="frozen", trainable=False)
    outputs = [own(rows), own(rows, factor=2.0), frozen(rows), Block()(rows), Block(name="c")(rows)]
    found = [own.name, str(own.count_params()), str(len(own.updates)), own.dtype]
    for each in (own, frozen):
        for kind in ("variables", "trainable_variables", "non_trainable_variables"):
            found += [variable.name for variable in getattr(each, kind)]
    return [*outputs, tf.constant(found, name="found")]


def value_of(name, shape):
    """Returns fixed values for a name, between 0.5 and 1.5 for variances and deviations."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    values = draws.normal(size=shape)
    return 0.5 + np.abs(values) % 1.0 if name.endswith(("variance", "stddev")) else values


def record(name, layers):
    """Returns what a program makes in a new graph, and what that computes, without objects."""
    config = v1.ConfigProto()
    # CPUs have no channels first without oneDNN, and TensorFlow 2.15 may compute other numbers.
    has_onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"
    has_channels_first = has_onednn and not hasattr(tf, "estimator")
    # Graphs run as they are, which is faster, but for the change of layouts.
    config.graph_options.rewrite_options.disable_meta_optimizer = not has_channels_first
    with tf.Graph().as_default() as graph, v1.Session(config=config) as session:
        outputs = CASES[name](layers)
        variables = v1.global_variables()
        made = {key: names(graph.get_collection(key)) for key in COLLECTIONS}
        made["variables"] = [
            [each.name, each.shape.as_list(), each.dtype.base_dtype.name] for each in variables
        ]
        made["outputs"] = [[each.name, each.shape.as_list()] for each in outputs]
        fed = {
            each.outputs[0]: value_of(each.name, each.outputs[0].shape.as_list())
            for each in graph.get_operations()
            if each.type == "Placeholder" and None not in each.outputs[0].shape.as_list()
        }
        for each in graph.get_operations():
            if each.type == "Placeholder" and each.outputs[0] not in fed:
                sizes = [3 if n is None else n for n in each.outputs[0].shape.as_list()]
                fed[each.outputs[0]] = value_of(each.name, sizes)
        loss = sum(
            tf.reduce_sum(tf.cast(each, tf.float64) ** 2)
            for each in outputs
            if each.dtype.is_floating
        )
        penalties = graph.get_collection("regularization_losses")
        loss += tf.cast(sum(penalties, tf.constant(0.0)), tf.float64)
        trained = v1.trainable_variables()
        gradients = [each for each in tf.gradients(loss, trained) if each is not None]
        updates = graph.get_collection("update_ops")
        assigned = [v1.assign(each, value_of(each.op.name, each.shape)) for each in variables]
        if "first" in name and not has_channels_first:
            return {**json.loads(json.dumps(made)), "numbers": []}
        session.run(assigned)
        numbers = session.run([outputs, gradients, penalties], fed)
        for each in updates:  # Two updates of one average give what their order makes of them.
            session.run(each, fed)
        numbers.append(session.run(variables))
        made["numbers"] = tf.nest.map_structure(plain, numbers)
    return json.loads(json.dumps(made))


COLLECTIONS = ("trainable_variables", "update_ops", "regularization_losses")


def names(entries):
    return [each.name for each in entries]


def plain(value):
    array = np.asarray(value)
    return array.astype(str).tolist() if array.dtype == object else array.tolist()


if __name__ == "__main__":
    kind, *programs = sys.argv[1:]
    if kind.endswith("reference"):
        v1.disable_v2_behavior()
    chosen = v1.layers
    if kind.startswith("ours"):
        from replicate.compat import layers as chosen
    print("\n" + json.dumps({each: record(each, chosen) for each in programs}))
