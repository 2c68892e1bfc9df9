import numpy as np
import pytest
import tensorflow as tf

from benchmarks import adaptive_kfac

if str(getattr(tf.keras, "__version__", "2.")).startswith("2."):
    pytest.skip("tf.keras is not Keras 3 here", allow_module_level=True)

from examples import mnist


def test_row_counts_runs_that_end_above_their_start():
    nan = float("nan")
    found = [
        adaptive_kfac.Run(2.0, 2.0, 0.5),
        adaptive_kfac.Run(2.0, nan, nan),
        adaptive_kfac.Run(2.0, 5.0, 2.5),
    ]
    assert [run.diverges for run in found] == [False, True, True]
    others = {name: [adaptive_kfac.Run(2.0, 2.0, 1.0)] for name in ("Adam", "SGD")}
    row = adaptive_kfac.row(("digits", "ConvNet", 64), {"K-FAC": found[::2], **others})
    assert row == "| digits | ConvNet | 64 | 1 of 2 | 2.50 | 0.500 to 2.500 | 1.000 | 1.000 |"


def test_adaptive_kfac_does_not_diverge():
    """Its first steps would leave the range of the quadratic model; they are short or undone."""
    case = adaptive_kfac.Case("K-FAC", "ConvNet", mnist.load().train[:2], 512)
    found = [case.train(seed, steps=8) for seed in (0, 1, 0)]
    for run in found:
        assert run.highest < 1.5 * run.first
        assert run.last <= run.first
    np.testing.assert_allclose(found[2], found[0], rtol=1e-3)  # Nothing is left of other seeds.
