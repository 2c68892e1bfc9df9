"""VGG's shapes, and its parameters against table 2 of Simonyan & Zisserman (2014)."""

import itertools

import pytest

DENSE = (7 * 7 * 512 + 1) * 4096 + (4096 + 1) * 4096 + (4096 + 1) * 1000
CHANNELS = {
    "vgg_11": [[64], [128], [256] * 2, [512] * 2, [512] * 2],
    "vgg_16": [[64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3],
}


@pytest.mark.parametrize(
    ("name", "total", "millions"), [("vgg_11", 132_863_336, 133), ("vgg_16", 138_357_544, 138)]
)
def test_shapes_and_parameters_of_the_paper(build, name, total, millions):
    vgg = build(name, 224, 3, 1000)
    assert vgg.network_fn.default_image_size == 224
    widths = [3, *itertools.chain(*CHANNELS[name])]
    convolutions = sum((3 * 3 * before + 1) * after for before, after in itertools.pairwise(widths))
    assert vgg.parameters == convolutions + DENSE == total
    assert round(total / 1e6) == millions
    assert [vgg.shapes[f"pool{block}"] for block in range(1, 6)] == [
        (112, 112, 64),
        (56, 56, 128),
        (28, 28, 256),
        (14, 14, 512),
        (7, 7, 512),
    ]
    convs = {end for end in vgg.shapes if end.startswith("conv")}
    assert convs == {
        f"conv{block}_{number}"
        for block, channels in enumerate(CHANNELS[name], start=1)
        for number in range(1, len(channels) + 1)
    }
    assert vgg.shapes["fc6"] == vgg.shapes["fc7"] == vgg.shapes["PreLogits"] == (4096,)
    assert vgg.shapes["Logits"] == vgg.shapes["Predictions"] == (1000,)


def test_tiny_images_will_do(build):
    vgg = build("vgg_11", 8, 1, 10, depth_multiplier=1 / 32)
    assert vgg.shapes["pool5"] == (1, 1, 16)
    assert vgg.trainable["fc6/weights"] == [16, 128]
