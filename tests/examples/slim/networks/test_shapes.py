"""Shapes of every network by the tables of its paper, and the number of its parameters."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.networks import cifarnet, factory

v1 = tf.compat.v1
CHANNELS = {
    "vgg_11": [[64], [128], [256] * 2, [512] * 2, [512] * 2],
    "vgg_16": [[64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3],
}
WIDTHS = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
SIDES = [112, 112, 56, 56, 28, 28, *[14] * 6, 7, 7]
UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
RESNET_SIDES = (56, 28, 14, 7)
HEADS = {"Logits": (10,), "Predictions": (10,)}


class Built:
    """Shapes of a network's results, and sizes of its variables by name."""

    def __init__(self, name, size, channels, num_classes, **settings):
        self.network_fn = factory.get_network_fn(name, num_classes)
        images = v1.placeholder(tf.float32, [4, size, size, channels])
        self.logits, self.end_points = self.network_fn(images, **settings)
        self.trainable = {
            v.op.name.removeprefix(f"{name}/"): v.shape.as_list() for v in v1.trainable_variables()
        }
        self.shapes = {
            name: tuple(tensor.shape.as_list()[1:]) for name, tensor in self.end_points.items()
        }

    @property
    def parameters(self):
        return sum(int(np.prod(shape)) for shape in self.trainable.values())


@pytest.fixture
def build(graph):
    """A function that builds a network for images of a size; see `Built`."""
    return Built


LENET = {
    **{"conv1": (28, 28, 32), "pool1": (14, 14, 32)},
    **{"conv2": (14, 14, 64), "pool2": (7, 7, 64)},
    **{"fc3": (1024,), "PreLogits": (1024,)},
}
CIFARNET = {
    **{"conv1": (32, 32, 64), "pool1": (16, 16, 64), "norm1": (16, 16, 64)},
    **{"conv2": (16, 16, 64), "norm2": (16, 16, 64), "pool2": (8, 8, 64)},
    **{"fc3": (384,), "fc4": (192,), "PreLogits": (192,)},
}


@pytest.mark.parametrize(
    ("name", "images", "shapes", "parameters"),
    [("lenet", (28, 1), LENET, 3_274_634), ("cifarnet", (32, 3), CIFARNET, 1_756_426)],
)
def test_shapes_and_parameters_for_small_images(build, name, images, shapes, parameters):
    network = build(name, *images, 10)
    assert network.network_fn.default_image_size == images[0]
    assert network.shapes == {**shapes, **HEADS}
    assert network.parameters == parameters


def test_normalization_matches_tensorflow_and_has_a_second_derivative(graph, evaluate):
    values = np.random.RandomState(0).randn(2, 3, 3, 7).astype(np.float32) * 30
    inputs = tf.constant(values)
    ours = cifarnet.local_response_normalization(inputs)
    theirs = tf.nn.lrn(inputs, depth_radius=2, bias=2.0, alpha=1e-4, beta=0.75)
    (first,) = tf.gradients(ours, inputs)
    (second,) = tf.gradients(first, inputs)
    results = evaluate([ours, theirs, first, tf.gradients(theirs, inputs)[0], second])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    np.testing.assert_allclose(results[2], results[3], rtol=1e-4, atol=1e-5)
    assert np.abs(results[4]).max() > 0


@pytest.mark.parametrize(("name", "parameters"), [("vgg_11", 132_863_336), ("vgg_16", 138_357_544)])
def test_shapes_and_parameters_of_vgg(build, name, parameters):
    vgg = build(name, 224, 3, 1000)
    assert vgg.network_fn.default_image_size == 224
    assert vgg.parameters == parameters
    sizes = zip((112, 56, 28, 14, 7), (64, 128, 256, 512, 512), strict=True)
    for block, (side, channels) in enumerate(sizes, start=1):
        assert vgg.shapes[f"pool{block}"] == (side, side, channels)
    convs = {end for end in vgg.shapes if end.startswith("conv")}
    assert convs == {
        f"conv{block}_{number}"
        for block, channels in enumerate(CHANNELS[name], start=1)
        for number in range(1, len(channels) + 1)
    }
    assert vgg.shapes["fc6"] == vgg.shapes["fc7"] == vgg.shapes["PreLogits"] == (4096,)
    assert vgg.shapes["Logits"] == vgg.shapes["Predictions"] == (1000,)


def test_shapes_and_parameters_of_the_mobile_network(build):
    with tf.Graph().as_default():
        narrow = build("mobilenet_v1", 224, 3, 1000, depth_multiplier=0.25)
    assert round(narrow.parameters / 1e6, 1) == 0.5
    mobilenet = build("mobilenet_v1", 224, 3, 1000)
    assert mobilenet.network_fn.default_image_size == 224
    assert mobilenet.parameters == 4_231_976
    assert mobilenet.shapes["conv0"] == (112, 112, 32)
    for number in range(1, 14):
        side = SIDES[number]
        assert mobilenet.shapes[f"depthwise{number}"] == (side, side, WIDTHS[number - 1])
        assert mobilenet.shapes[f"pointwise{number}"] == (side, side, WIDTHS[number])
    assert mobilenet.shapes["PreLogits"] == (1024,)
    assert mobilenet.shapes["Logits"] == mobilenet.shapes["Predictions"] == (1000,)


@pytest.mark.parametrize(
    ("version", "depth", "parameters"),
    [
        (1, 18, 11_689_512),
        (1, 34, 21_797_672),
        (1, 50, 25_557_032),
        (2, 18, 11_687_720),
        pytest.param(2, 34, 21_795_880, marks=pytest.mark.slow),
        (2, 50, 25_549_352),
    ],
)
def test_shapes_and_parameters_of_residual_networks(build, version, depth, parameters):
    resnet = build(f"resnet_v{version}_{depth}", 224, 3, 1000)
    assert resnet.network_fn.default_image_size == 224
    assert resnet.parameters == parameters
    widening = 4 if depth == 50 else 1
    expected = {"conv1": (112, 112, 64), "pool1": (56, 56, 64)}
    for stage, count in enumerate(UNITS[depth], start=1):
        side, channels = RESNET_SIDES[stage - 1], widening * 64 * 2 ** (stage - 1)
        for unit in range(1, count + 1):
            expected[f"block{stage}/unit{unit}"] = (side, side, channels)
    features = (512 * widening,)
    expected |= {"PreLogits": features, "Logits": (1000,), "Predictions": (1000,)}
    assert resnet.shapes == expected
    convolutions = [name for name in resnet.trainable if "/conv" in name and name[-7:] == "weights"]
    assert len(convolutions) == depth - 2  # the first one and the logits are layers, too


@pytest.mark.parametrize(("version", "name"), [(1, "conv2/BatchNorm"), (2, "postact")])
def test_unit_adds_to_its_input(graph, version, name):
    """Without a residual, v1 lets through what is positive, and v2 everything."""
    images = tf.constant(np.random.RandomState(0).randn(2, 16, 16, 3).astype(np.float32))
    network_fn = factory.get_network_fn(f"resnet_v{version}_18", None)
    _, ends = network_fn(images, depth_multiplier=1 / 8)
    last = {1: "conv2/BatchNorm/gamma", 2: "conv2/weights"}[version]
    zeroed = [v for v in v1.trainable_variables() if v.op.name.endswith(f"unit2/{last}")]
    assert len(zeroed) == 4
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run([v.assign(tf.zeros_like(v)) for v in zeroed])
        for block in range(1, 5):
            before, after = session.run([ends[f"block{block}/unit1"], ends[f"block{block}/unit2"]])
            np.testing.assert_array_equal(after, before)
            assert (before.min() < 0) == (version == 2)


def test_shapes_and_parameters_of_the_released_network(build):
    inception = build("inception_v3", 299, 3, 1000)
    assert inception.network_fn.default_image_size == 299
    assert inception.parameters == 27_161_264
    assert inception.shapes == {
        "conv1": (149, 149, 32),
        "conv2": (147, 147, 32),
        "conv3": (147, 147, 64),
        "pool1": (73, 73, 64),
        "conv4": (73, 73, 80),
        "conv5": (71, 71, 192),
        "pool2": (35, 35, 192),
        "mixed35_1": (35, 35, 256),
        "mixed35_2": (35, 35, 288),
        "mixed35_3": (35, 35, 288),
        "reduced17": (17, 17, 768),
        **{f"mixed17_{number}": (17, 17, 768) for number in range(1, 5)},
        "AuxLogits": (1000,),
        "reduced8": (8, 8, 1280),
        "mixed8_1": (8, 8, 2048),
        "mixed8_2": (8, 8, 2048),
        "PreLogits": (2048,),
        "Logits": (1000,),
        "Predictions": (1000,),
    }
    assert inception.trainable["aux_logits/conv2/weights"] == [5, 5, 128, 768]


def test_smallest_images_give_one_pixel_and_smaller_ones_are_refused(build):
    """Without classes there are no heads."""
    inception = build("inception_v3", 75, 3, None, depth_multiplier=1 / 16)
    assert inception.shapes["mixed8_2"] == (1, 1, 128)
    assert inception.logits is inception.end_points["PreLogits"]
    assert not {"AuxLogits", "Logits", "Predictions"} & set(inception.end_points)
    assert not [name for name in inception.trainable if "logits" in name]
    for size in ((74, 100), (100, 74), (None, 100)):
        images = v1.placeholder(tf.float32, [None, *size, 3])
        message = f"at least 75x75, got {size[0]}x{size[1]}. Enlarge them"
        with pytest.raises(ValueError, match=message):
            factory.get_network_fn("inception_v3", 10)(images)
