"""A small network in TensorFlow, built the way a replicated model function builds it."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

CLASSES = 3


@dataclasses.dataclass
class Network:
    """Convolution (3x3, SAME) with bias, ReLU, dense layer with bias, softmax."""

    collection: kfac.LayerCollection
    features: list
    labels: list
    losses: list
    variables: list
    loss_of: Callable = None
    """Computes the mean loss of a batch (features, labels) anew; of `build_mlp` only."""

    @property
    def batch(self):
        """The argument of `loss_of` for one tower."""
        return self.features[0], self.labels[0]

    def feed(self, features, labels):
        """Feeds one array per tower."""
        return dict(zip(self.features + self.labels, list(features) + list(labels), strict=True))

    def start(self, session, optimizer):
        """Builds a step of the only tower, and initializes all variables; returns its op."""
        train = optimizer.minimize(self.losses[0])
        session.run(v1.global_variables_initializer())
        return train

    def share(self, batch):
        """Feeds the towers equal shares of a batch (features, labels)."""
        return self.feed(*(np.split(array, len(self.losses)) for array in batch))

    def periodic(self, **kwargs):
        """Makes the optimizer that updates its curvature by itself."""
        settings = {"learning_rate": 0.1, "damping": 0.3, "estimation_mode": "empirical"}
        return kfac.PeriodicInvCovUpdateKfacOpt(
            layer_collection=self.collection, **{**settings, **kwargs}
        )

    def mean_gradients(self, optimizer):
        """Gradients of the mean over equal towers, from one compute_gradients call per tower."""
        share = 1.0 / len(self.losses)
        towers = [optimizer.compute_gradients(share * loss) for loss in self.losses]
        return [
            (tf.add_n([gradient for gradient, _ in of_variable]), of_variable[0][1])
            for of_variable in zip(*towers, strict=True)
        ]


def initial_weights(seed=0):
    random = np.random.RandomState(seed)
    return {
        "conv/w": random.randn(3, 3, 2, 4) / 4,
        "conv/b": random.randn(4) / 4,
        "fc/w": random.randn(4 * 4 * 4, CLASSES) / 4,
        "fc/b": random.randn(CLASSES) / 4,
    }


def _tower(collection, x, y, dtype):
    initial = initial_weights()

    def weight(name):
        value = initial[name].astype(dtype)
        return v1.get_variable(name, dtype=dtype, initializer=tf.constant(value))

    conv, fc = (weight("conv/w"), weight("conv/b")), (weight("fc/w"), weight("fc/b"))
    s = tf.nn.conv2d(x, conv[0], 1, "SAME") + conv[1]
    collection.register_conv2d(conv, (1, 1, 1, 1), "SAME", x, s)
    a = tf.reshape(tf.nn.relu(s), [-1, 4 * 4 * 4])
    logits = tf.matmul(a, fc[0]) + fc[1]
    collection.register_fully_connected(fc, a, logits)
    collection.register_categorical_predictive_distribution(logits, targets=y, name="logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return loss, [*conv, *fc]


@pytest.fixture
def build_network(graph):
    """A function that builds the network in the current graph, with placeholders per tower."""

    def build(towers=1, dtype="float32", use_resource=True, size=4):
        collection = kfac.graph_layer_collection()
        network = Network(collection, [], [], [], [])
        for tower in range(towers):
            x = v1.placeholder(dtype, [None, size, size, 2])
            y = v1.placeholder(tf.int64, [None])
            scope = v1.variable_scope("", reuse=tower > 0, use_resource=use_resource)
            with scope, v1.device(f"/cpu:{tower}"):
                loss, network.variables = _tower(collection, x, y, dtype)
            network.features.append(x)
            network.labels.append(y)
            network.losses.append(loss)
        return network

    return build


def _mlp_logits(x, layers, collection=None):
    """Logits of tanh(x w + b) v + c, or of x w + b; registers the layers of one tower."""
    random, dtype = np.random.RandomState(1), x.dtype.as_numpy_dtype
    sizes = {"hidden": (3, 4), "logits": (4, CLASSES)} if layers == 2 else {"logits": (3, CLASSES)}
    params = []
    for name, size in sizes.items():
        with v1.variable_scope(name):
            starts = random.randn(*size) / 2, random.randn(size[1]) / 4
            w, b = (
                v1.get_variable(leaf, dtype=dtype, initializer=start.astype(dtype))
                for leaf, start in zip("wb", starts, strict=True)
            )
        s = tf.matmul(x, w) + b
        if collection:
            collection.register_fully_connected((w, b), x, s)
        params += [w, b]
        x = tf.tanh(s)
    return s, params


def _mean_loss(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def _mlp_loss(layers, batch):
    """The mean loss of a batch (features, labels), by another forward pass."""
    with v1.variable_scope("mlp", reuse=True):
        return _mean_loss(_mlp_logits(batch[0], layers)[0], batch[1])


@pytest.fixture
def build_mlp(graph):
    """A function that builds one or two dense layers in the current graph.

    There are placeholders for each tower.
    """

    def build(towers=1, dtype="float64", use_resource=True, layers=2):
        collection = kfac.graph_layer_collection()
        network = Network(collection, [], [], [], [], functools.partial(_mlp_loss, layers))
        for tower in range(towers):
            x, y = v1.placeholder(dtype, [None, 3]), v1.placeholder(tf.int64, [None])
            scope = v1.variable_scope("mlp", reuse=tower > 0, use_resource=use_resource)
            with scope, v1.device(f"/cpu:{tower}"):
                logits, network.variables = _mlp_logits(x, layers, collection)
                collection.register_softmax_cross_entropy_loss(logits, targets=y, name="loss")
                network.losses.append(_mean_loss(logits, y))
            network.features.append(x)
            network.labels.append(y)
        return network

    return build


@pytest.fixture
def rows():
    """Features [12, 3] in float64 and labels [12]."""
    random = np.random.RandomState(5)
    return random.randn(12, 3), random.randint(0, CLASSES, 12)


@pytest.fixture
def batch():
    """Features [12, 4, 4, 2] in float64 and labels [12]."""
    random = np.random.RandomState(7)
    return random.randn(12, 4, 4, 2), random.randint(0, CLASSES, 12)


@pytest.fixture
def session(graph):
    """A session of the graph; run the initializer when everything is built."""
    with v1.Session(graph=graph) as session:
        yield session


@pytest.fixture
def update_factors(session):
    """Makes the variables of factors, and updates all averages, then all inverses, once."""

    def update(*factors):
        for factor in factors:
            factor.instantiate_cov_variables()
            factor.instantiate_inv_variables()
        averages = [factor.make_covariance_update_op(0.9) for factor in factors]
        inverses = [factor.make_inverse_update_ops() for factor in factors]
        for ops in (v1.global_variables_initializer(), averages, inverses):
            session.run(ops)

    return update


@pytest.fixture(params=["v2", "v1"])
def behavior(request):
    """TensorFlow as it is, and with what `disable_v2_behavior` changes in graphs."""
    if request.param == "v2":
        yield
        return
    v1.disable_control_flow_v2()
    v1.disable_v2_tensorshape()
    v1.disable_resource_variables()
    try:
        yield
    finally:
        v1.enable_resource_variables()
        v1.enable_v2_tensorshape()
        v1.enable_control_flow_v2()


def _patches(images, kernel, strides, padding, dilations):
    rank = len(kernel)
    sizes, starts, outputs = images.shape[1:-1], [], []
    for size, k, s, r in zip(sizes, kernel, strides, dilations, strict=True):
        extent = (k - 1) * r + 1
        out = -(-size // s) if padding == "SAME" else -(-(size - extent + 1) // s)
        missing = max((out - 1) * s + extent - size, 0) if padding == "SAME" else 0
        starts.append(-(missing // 2))
        outputs.append(out)
    found = np.zeros([len(images), *outputs, *kernel, images.shape[-1]])
    for index in np.ndindex(*outputs, *kernel):
        at, offset = index[:rank], index[rank:]
        pixel = tuple(
            start + a * s + o * r
            for start, a, s, o, r in zip(starts, at, strides, offset, dilations, strict=True)
        )
        if all(0 <= p < size for p, size in zip(pixel, sizes, strict=True)):
            found[(slice(None), *index)] = images[(slice(None), *pixel)]
    return found.reshape(len(images), int(np.prod(outputs)), -1)


@pytest.fixture
def reference_patches():
    """A function of (images, kernel, strides, padding, dilations): patches one by one, in NumPy.

    They are [N, locations, entries · channels]; entries outside of the image are zero.
    """
    return _patches


def _damped_inverses(averages, damping):
    found = []
    for a, g in zip(averages[::2], averages[1::2], strict=True):
        pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
        for average, share in ((a, pi), (g, 1 / pi)):
            found.append(np.linalg.inv(average + share * np.sqrt(damping) * np.eye(len(average))))
    return found


@pytest.fixture
def damped_inverses():
    """A function of the averages A and G of dense layers, and λ: their inverses, in NumPy.

    They are damped as in Martens & Grosse (2015), §6.3.
    """
    return _damped_inverses


@pytest.fixture
def largest_constant(session):
    """Runs an op; returns how many entries the largest constant has that TensorFlow keeps for it.

    That is after it has computed all that it can before the first run.
    """

    def find(op, feed=None):
        options, metadata = v1.RunOptions(output_partition_graphs=True), v1.RunMetadata()
        session.run(op, feed, options=options, run_metadata=metadata)
        nodes = [node for graph in metadata.partition_graphs for node in graph.node]
        shapes = [n.attr["value"].tensor.tensor_shape for n in nodes if n.op == "Const"]
        return max((tf.TensorShape(shape).num_elements() for shape in shapes), default=0)

    return find
