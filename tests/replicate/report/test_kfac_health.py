import math

import pytest

from replicate.report.curves import Curve
from replicate.report.kfac_health import kfac_health


def words(**curves):
    """The sentences on curves with these values, as one text."""
    training = {
        f"kfac/monitor/{tag.replace('__', '/')}": Curve(tuple(range(len(values))), values)
        for tag, values in curves.items()
    }
    return " ".join(kfac_health(training))


def test_without_kfac_there_are_no_words():
    assert kfac_health({"loss": Curve((1,), (1.0,))}) == []


def test_a_healthy_run():
    told = words(
        skipped_steps=(0.0, 0.0),
        rejected_steps=(0.0, 1.0),
        kept_inverses=(0.0, 0.0),
        damping=(0.25, 0.125),
        rho=(math.nan, 0.5),
        w__input__inverse_condition=(math.nan, 8.0),
    )
    assert told == (
        "All is well: every step, every statistic and every inverse was finite. "
        "1 step was undone; a few are normal. "
        "The largest condition number is 8, of w/input, which float32 can invert. "
        "The loss fell about as predicted: the damping is right (rho 0.5). "
        "The damping fell from 0.25 to 0.125, as in a good run."
    )


def test_trouble_comes_with_advice():
    told = words(
        skipped_steps=(0.0, 2.0),
        refused_statistics=(1.0,),
        retried_inverses=(0.0, 3.0),
        kept_inverses=(0.0, 1.0),
        w__output__inverse_condition=(2e7,),
        damping=(0.1, 10.0),
    )
    assert "All is well" not in told
    for part in (
        "2 steps were not finite and skipped. Look for bad input, or lower the learning rate.",
        "The curvature of 1 batch was not finite and left out.",
        "3 inversions needed more damping; 1 inversion failed, so that the last inverse was kept.",
        "The largest condition number is 2e+07, of w/output: raise min_damping",
        "The damping rose from 0.1 to 10.",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("rho", "told"),
    [
        (-0.5, "rose where K-FAC predicted a fall"),
        (0.1, "far less than predicted"),
        (1.0, "as predicted: the damping may fall"),
        (3.0, "steps could be longer"),
    ],
)
def test_rho_in_words(rho, told):
    assert told in words(rho=(rho,))
    assert words(damping=(0.5, 0.5)) == "The damping is 0.5."
    assert words(rho=(math.nan,), damping=(math.nan,), skipped_steps=(math.inf,)).count(".") == 1
