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


def test_samples_picture_shows_the_samples_and_grows_with_their_rows(tmp_path):
    path, drawn = tmp_path / "picture.png", set()
    for value, count, height in ((0, 10, 102), (1, 10, 102), (1, 30, 246)):
        pictures.draw_samples([np.full([4, 4, 1], value)] * count, str(path), "A title")
        assert size(path) == (720, height)
        drawn.add(path.read_bytes())
    assert len(drawn) == 3
