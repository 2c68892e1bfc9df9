import struct
import warnings

import pytest

pytest.importorskip("matplotlib")

from replicate.report.curves import Curve
from replicate.report.panels import Panel
from replicate.report.pictures import draw


def test_picture_size_follows_the_number_of_panels(tmp_path):
    """Neither formulas nor names that the font lacks give a warning."""
    curves = {"$^$": Curve((1, 2), (1.0, float("nan"))), "🦆": Curve((1,), (2.0,))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw([Panel("日本a$\\frac{$", curves, True)] * 5, tmp_path / "a.png", "title")
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24]) == (506 * 3, 363 * 2)
