import pytest

from benchmarks.gpu_check import gpu_tests
from benchmarks.gpu_check.outcome import Verdict


@pytest.mark.parametrize(
    ("code", "last", "verdict"),
    [
        (0, "7 passed in 3.00s", Verdict.OK),
        (1, "1 failed, 6 passed, 2 warnings in 3.00s", Verdict.FAILED),
        (0, "7 skipped in 0.10s", Verdict.FAILED),
        (0, "6 passed, 1 skipped in 0.10s", Verdict.FAILED),
        (1, "1 error in 0.10s", Verdict.FAILED),
        (5, "no tests ran in 0.10s", Verdict.FAILED),
        (3, "", Verdict.FAILED),
    ],
)
def test_only_tests_that_all_pass_are_ok(code, last, verdict):
    assert gpu_tests.read_outcome(code, f"....\n{last}\n").verdict is verdict
