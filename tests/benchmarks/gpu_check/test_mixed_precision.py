from benchmarks.gpu_check import mixed_precision
from benchmarks.gpu_check.devices import choose_devices
from benchmarks.gpu_check.models import Mlp
from benchmarks.gpu_check.outcome import Verdict


def test_float16_learns_as_float32_does(monkeypatch):
    monkeypatch.setattr(mixed_precision, "MODELS", {"MLP": Mlp})
    monkeypatch.setattr(mixed_precision, "BATCH_SIZE", 12)
    outcome = mixed_precision.compare(choose_devices([]), steps=6)
    assert outcome.verdict is Verdict.OK, outcome.summary
    ((_, first, last, last_half, _, skipped, factor),) = outcome.tables[0].rows
    assert last < first
    assert last_half < first
    assert 1 <= skipped <= mixed_precision.MOST_SKIPPED
    assert factor == 2.0 ** (24 - skipped)
