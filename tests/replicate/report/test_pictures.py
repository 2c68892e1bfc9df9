import struct
import warnings

import pytest

pytest.importorskip("matplotlib")

from replicate.report.curves import Curve
from replicate.report.panels import Panel
from replicate.report.pictures import draw


@pytest.mark.parametrize(("count", "columns", "rows"), [(4, 2, 2), (5, 3, 2)])
def test_picture_size_follows_the_number_of_panels(tmp_path, count, columns, rows):
    panel = Panel(
        "a$\\frac{$", {"$^$": Curve((1, 2), (1.0, float("nan"))), "b": Curve((1,), (2.0,))}, True
    )
    draw([panel] * count, tmp_path / "a.png", "title")
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24]) == (506 * columns, 363 * rows)


def test_name_that_the_font_lacks_is_drawn_without_a_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw([Panel("日本語", {"🦆": Curve((1,), (1.0,))}, False)], tmp_path / "a.png", "title")
    assert (tmp_path / "a.png").exists()
