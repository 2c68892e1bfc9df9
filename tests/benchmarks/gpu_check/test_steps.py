from typing import get_args

from benchmarks.gpu_check import steps
from benchmarks.gpu_check.devices import choose_devices
from benchmarks.gpu_check.models import WideMlp
from model_deploy import GradientReduction


def test_each_reduction_is_timed(monkeypatch):
    monkeypatch.setattr(steps, "BLOCK", 1)
    times = steps.time_reductions(choose_devices([]), 2, WideMlp(width=8, batch_size=4))
    assert set(times) == set(get_args(GradientReduction))
    for blocks in times.values():
        assert len(blocks) == 2
        assert min(blocks) > 0


def test_gradients_of_the_wide_model_are_19_megabytes():
    sizes = [values.nbytes for values in WideMlp().parameters.values()]
    assert round(sum(sizes) / 1e6) == 19
