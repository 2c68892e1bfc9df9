"""Diagrams and charts have dark versions with the same hues."""

import colorsys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dark_pictures(load):
    return load("docs/_ext/dark_pictures.py")


def test_dark_colours_keep_their_hue_and_black_and_white_change_places(dark_pictures):
    for colour in ((0, 0.45, 0.7), (0.84, 0.37, 0), (0.87, 0.94, 0.98), (0, 0, 0), (1, 1, 1)):
        turned = dark_pictures.turned(np.array(colour, float))
        hue, lightness, _ = colorsys.rgb_to_hls(*colour)
        turned_hue, turned_lightness, _ = colorsys.rgb_to_hls(*turned)
        assert turned_hue == pytest.approx(hue, abs=0.01)
        assert turned_lightness == pytest.approx(1 - 0.92 * lightness, abs=0.02)


def test_dark_drawing_differs_in_its_colours_only(dark_pictures):
    drawing = '<rect fill="#ffffff" id="a1b2c3"/><path stroke="#000000" d="M1 2"/>'
    assert dark_pictures.dark_svg(drawing) == (
        '<rect fill="#141414" id="a1b2c3"/><path stroke="#ffffff" d="M1 2"/>'
    )


def test_dark_page_shows_the_dark_picture(dark_pictures):
    body = '<p><img alt="a" src="../_images/flow.svg" /> <img class="x" src="_images/b.png"/></p>'
    shown = dark_pictures.with_dark(body, lambda name: name == "flow.svg")
    assert shown == (
        '<p><img class="only-light " alt="a" src="../_images/flow.svg" />'
        '<img class="only-dark " alt="a" src="../_images/flow-dark.svg" /> '
        '<img class="x" src="_images/b.png"/></p>'
    )


def test_pictures_of_data_stay_as_they_are(dark_pictures, tmp_path):
    pixels = np.full([10, 10, 3], 255, np.uint8)
    pixels[:4] = [0, 0x72, 0xB2]
    Image.fromarray(pixels).save(tmp_path / "chart.png")
    Image.fromarray(pixels[:6]).save(tmp_path / "digits.png")
    (tmp_path / "flow.svg").write_text('<rect fill="#ffffff"/>')
    for _ in range(2):  # A second build finds the dark versions of the first.
        dark_pictures.write_dark(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "chart-dark.png", "chart.png", "digits.png", "flow-dark.svg", "flow.svg",
        ]  # fmt: skip
    dark = np.asarray(Image.open(tmp_path / "chart-dark.png"))
    assert tuple(dark[9, 9]) == (20, 20, 20)
    assert dark[0, 0, 2] > dark[0, 0, 1] > dark[0, 0, 0]


def test_drawings_and_charts_of_the_project_are_told_from_digits(dark_pictures):
    images = ROOT / "docs" / "images"
    assert dark_pictures.is_drawn(images / "flow.svg")
    assert dark_pictures.is_drawn(images / "kfac_mnist.png")
    assert not dark_pictures.is_drawn(images / "gan_samples.png")
