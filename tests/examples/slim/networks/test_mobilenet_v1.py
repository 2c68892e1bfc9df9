"""MobileNet's shapes and parameters, by tables 1, 6 and 7 of Howard et al. (2017)."""

import itertools

import pytest

WIDTHS = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
SIDES = [112, 112, 56, 56, 28, 28, *[14] * 6, 7, 7]


def parameters(multiplier):
    widths = [int(width * multiplier) for width in WIDTHS]
    total = 3 * 3 * 3 * widths[0] + 2 * widths[0]
    for before, after in itertools.pairwise(widths):
        depthwise, pointwise = 3 * 3 * before, before * after
        total += depthwise + 2 * before + pointwise + 2 * after
    return total + (widths[-1] + 1) * 1000


@pytest.mark.parametrize(
    ("multiplier", "millions"),
    [(0.75, 2.6), pytest.param(0.5, 1.3, marks=pytest.mark.slow), (0.25, 0.5)],
)
def test_parameters_of_the_paper(build, multiplier, millions):
    mobilenet = build("mobilenet_v1", 224, 3, 1000, depth_multiplier=multiplier)
    assert mobilenet.parameters == parameters(multiplier)
    assert round(mobilenet.parameters / 1e6, 1) == millions


def test_shapes_of_the_paper(build):
    mobilenet = build("mobilenet_v1", 224, 3, 1000)
    assert mobilenet.network_fn.default_image_size == 224
    assert mobilenet.parameters == parameters(1.0) == 4_231_976
    assert mobilenet.shapes["conv0"] == (112, 112, 32)
    for number in range(1, 14):
        side = SIDES[number]
        assert mobilenet.shapes[f"depthwise{number}"] == (side, side, WIDTHS[number - 1])
        assert mobilenet.shapes[f"pointwise{number}"] == (side, side, WIDTHS[number])
    assert mobilenet.shapes["PreLogits"] == (1024,)
    assert mobilenet.shapes["Logits"] == mobilenet.shapes["Predictions"] == (1000,)
