import math

import pytest

from replicate.report.best import best, direction
from replicate.report.curves import Curve


@pytest.mark.parametrize(
    ("tag", "side"),
    [
        ("loss", "low"),
        ("average_loss", "low"),
        ("head/mean_error", "low"),
        ("Accuracy", "high"),
        ("auc_precision_recall", "high"),
        ("label/mean", None),
        ("glossary", None),
    ],
)
def test_good_side_of_a_metric(tag, side):
    assert direction(tag) == side


def test_best_result_is_the_first_of_equal_ones():
    curve = Curve((1, 2, 3, 4), (0.5, math.nan, 0.25, 0.25))
    assert best("loss", curve) == (0.25, 3)
    assert best("accuracy", curve) == (0.5, 1)
    assert best("label/mean", curve) == (0.25, 4)
    assert best("loss", Curve((1,), (math.inf,))) is None
