"""The gallery has a card with a picture for each program and notebook."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def gallery(load):
    return load("docs/_ext/gallery.py")


@pytest.fixture(scope="module")
def thumbnails(load):
    return load("docs/_ext/thumbnails.py")


def test_every_row_of_the_examples_and_every_notebook_has_a_card(gallery):
    table = (ROOT / "examples" / "README.md").read_text().partition("| program |")[2]
    rows = [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| [")]
    notebooks = list((ROOT / "docs" / "notebooks").glob("*.py"))
    cards = gallery.cards()
    assert len(rows) > 10
    assert len(cards) == len({card.name for card in cards}) == len(rows) + len(notebooks)
    assert all(card.title and card.text for card in cards)
    cards = {card.name: card for card in cards}
    sources = [card.file for card in cards.values() if card.file.startswith("source/")]
    assert len(sources) > 10
    assert all((ROOT / file[len("source/") : -len(".html")]).is_file() for file in sources)
    assert cards["mlp"].page == "start/examples.html#mlp"
    assert cards["mlp"].file == "source/examples/mlp.py.html"
    assert cards["cluster"].page == "start/cluster_examples.html"
    assert cards["gan"].picture == ROOT / "docs" / "images" / "gan_samples.png"
    assert cards["towers"].page == "notebooks/towers.html"
    assert cards["towers"].file == "_downloads/towers.ipynb"
    assert cards["towers"].text == (
        "Two towers on half of a batch each take the same training steps as one tower on the whole "
        "batch."
    )


def png(colour):
    """A picture of one colour, 96 × 30 pixels."""
    file = io.BytesIO()
    Image.new("RGB", (96, 30), colour).save(file, "PNG")
    return file.getvalue()


def drawn(thumbnails, card, folder, notebook=None):
    thumbnails.draw(card, notebook, folder / "out" / "a.png")
    pixels = np.asarray(Image.open(folder / "out" / "a.png").convert("RGB"))
    assert pixels.shape == (300, 480, 3)
    return pixels


def test_notebook_is_shown_by_its_first_figure(gallery, thumbnails, tmp_path):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["words\n"]},
        *(
            {
                "output_type": "display_data",
                "data": {"image/png": base64.b64encode(png(c)).decode()},
            }
            for c in ("red", "blue")
        ),
    ]
    notebook = {"cells": [{"outputs": outputs}]}
    card = gallery.Card("a", "a", "", "notebooks/a.html", "")
    pixels = drawn(thumbnails, card, tmp_path, notebook)
    np.testing.assert_array_equal(pixels[150, 240], [255, 0, 0])
    np.testing.assert_array_equal(pixels[10, 240], [255, 255, 255])  # It is wider than the card.


def test_program_is_shown_by_its_picture(gallery, thumbnails, tmp_path):
    (tmp_path / "p.png").write_bytes(png("lime"))
    card = gallery.Card("a", "a", "", "start/e.html#a", "", tmp_path / "p.png", ("words",))
    np.testing.assert_array_equal(drawn(thumbnails, card, tmp_path)[150, 240], [0, 255, 0])


LINES = (
    "$ python -m examples.a",
    "evaluation      step 50   train loss 0.4218 accuracy 0.930   test loss 0.4613 accuracy 0.922",
    "evaluation      step 100   train loss 0.0764 accuracy 0.988   test loss 0.1287 accuracy 0.967",
)


def test_curves_are_those_that_the_program_printed(gallery, thumbnails, tmp_path):
    metric, values = thumbnails.curves_of(LINES)
    assert metric == "accuracy"
    assert values == {"step": [50, 100], "train": [0.93, 0.988], "test": [0.922, 0.967]}
    assert thumbnails.curves_of(LINES[:2]) is None
    card = gallery.Card("a", "a", "", "start/e.html#a", "", None, LINES)
    colours = {tuple(pixel) for pixel in drawn(thumbnails, card, tmp_path).reshape(-1, 3)}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (255, 255, 255)} <= colours
