"""Pictures are PNG files of the stated sizes that show what they are given."""

import struct

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from examples import mnist, pictures


def size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def test_autoencoder_picture_has_its_size(tmp_path):
    random = np.random.RandomState(0)
    images = random.rand(20, 4, 3, 1)
    examples = mnist.Examples(images, np.arange(20) % 10)
    path = tmp_path / "picture.png"
    pictures.draw_autoencoder(examples, list(images), list(random.rand(20, 2)), str(path))
    assert size(path) == (1200, 540)


@pytest.mark.parametrize(("count", "height"), [(10, 102), (30, 246)])
def test_samples_picture_grows_with_the_rows(tmp_path, count, height):
    path = tmp_path / "picture.png"
    pictures.draw_samples(list(np.random.rand(count, 4, 4, 1)), str(path), "A title")
    assert size(path) == (720, height)


def test_samples_picture_shows_the_samples(tmp_path):
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    pictures.draw_samples([np.zeros([4, 4, 1])] * 10, str(light), "A title")
    pictures.draw_samples([np.ones([4, 4, 1])] * 10, str(dark), "A title")
    assert light.read_bytes() != dark.read_bytes()
