"""Arguments of calls whose replacement has them in another order, or by other names."""

import libcst as cst
import pytest

from replicate.migrate.rewrite import keyword_edits
from replicate.migrate.source import Source

KEYWORDS = (("predictions", "predictions"), ("labels", "targets"), ("weights", "weights"))


def rewritten(text):
    source = Source(text)
    call = source.module.body[0].body[0].value
    assert isinstance(call, cst.Call)
    edits = keyword_edits(source, call, KEYWORDS)
    return None if edits is None else source.edited(edits)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f(a, b)", "f(predictions=a, targets=b)"),
        ("f(a, labels = b, name='x')", "f(predictions=a, targets = b, name='x')"),
        ("f(\n  a,  # first\n  b)", "f(\n  predictions=a,  # first\n  targets=b)"),
        ("f()", "f()"),
        ("f(*a)", None),
        ("f(a, **b)", None),
    ],
)
def test_positions_become_keywords(old, new):
    assert rewritten(old) == new
