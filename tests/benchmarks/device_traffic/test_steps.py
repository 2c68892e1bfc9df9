"""Tensors that cross between devices in a training step, and the tables of them."""

from typing import get_args

import pytest

from benchmarks.device_traffic import __main__ as benchmark
from benchmarks.device_traffic import steps
from benchmarks.device_traffic.traffic import flow
from model_deploy import GradientReduction as Reduction

TOWERS = 2
PARAMETERS = 4 * (5 * 5 * 1 * 16 + 16 + 5 * 5 * 16 * 16 + 16 + 784 * 10 + 10)
"""Bytes of the ConvNet's parameters, and of their gradients."""
DENSE_PARAMETERS = [4 * size for size in (784 * 64, 64, 64 * 10, 10)]
"""Bytes of the parameters of a network 784-64-10."""
BATCH = steps.BATCH_PER_TOWER * 4 * (28 * 28 + 1)
"""Bytes of a tower's images and labels."""
CHECKED = 4 * 6
"""Bytes of the sums by which six gradients are checked."""
LOSS = 4
TOWERS_ADDED = 4
SLACK = 1024
"""Bytes by which parts may differ, since small pieces are not cut off, and of checks."""


def packed(size):
    """Returns the bytes of the lower triangle of a float32 matrix, made even in size."""
    even = size + size % 2
    return 4 * even * (even + 1) // 2


@pytest.mark.parametrize(
    ("step", "scale", "checked"), [("momentum", 0, CHECKED), ("accumulated, loss scale", 4, 0)]
)
def test_only_batch_parameters_and_gradients_cross(step, scale, checked):
    found = steps.traffic(step, TOWERS)
    assert found.sent("CPU>GPU") == TOWERS * (BATCH + PARAMETERS + scale)
    assert found.sent("GPU>CPU") == TOWERS * (PARAMETERS + checked + LOSS)
    assert found.sent("GPU>GPU") == 0
    assert found.rounds == 0
    assert found.waits == found.strays == []


@pytest.fixture(scope="module")
def usual_step():
    """Traffic of a step of K-FAC that computes no inverses."""
    return steps.traffic("kfac, dense kron", TOWERS, inverses=False)


def test_kfac_sends_gradients_and_packed_sums_once(usual_step):
    found = usual_step
    parameters = sum(DENSE_PARAMETERS)
    checked = 4 * len(DENSE_PARAMETERS)
    accepted = 1
    scalars = 100
    # The sums of gradients go to the GPUs that multiply them, and the products come back.
    to_gpus = found.sent("CPU>GPU") - TOWERS * (BATCH + parameters) - parameters
    to_cpu = found.sent("GPU>CPU") - TOWERS * (parameters + checked + LOSS) - parameters
    assert 0 <= to_gpus < scalars
    assert 0 <= to_cpu < scalars
    between = [each.bytes for each in found.crossings if "CPU:0" not in each[2:4]]
    sums = [packed(size) for size in (785, 64, 65, 10)]
    # Both inverses of a layer are where its gradient is multiplied.
    assert sorted(each for each in between if each > scalars) == sorted(sums)
    # Averages and inverses are kept once, about half of them on each GPU, and weights on the CPU.
    on_gpus = [found.kept["GPU:0"], found.kept["GPU:1"]]
    assert 0 <= sum(on_gpus) - 2 * sum(4 * size**2 for size in (785, 64, 65, 10)) < SLACK
    assert found.kept["CPU:0"] == pytest.approx(2 * parameters, abs=scalars)
    # Gradients are summed on the CPU.
    assert found.rounds == 1
    assert {each.bytes for each in found.waits} <= {0, accepted, checked, *DENSE_PARAMETERS}
    assert found.strays == []


def test_new_inverses_add_averages_and_two_rounds(usual_step):
    usual = usual_step
    found = steps.traffic("kfac, dense kron", TOWERS)
    averages = sum(4 * size**2 for size in (785, 65, 10))
    traces, flags = 64, 16
    # Averages are spread by their bytes, inverses by what they cost.
    assert 0 <= found.sent("GPU>GPU") - usual.sent("GPU>GPU") - averages < traces
    assert 0 <= found.sent("GPU>CPU") - usual.sent("GPU>CPU") < flags
    assert found.sent("CPU>GPU") == usual.sent("CPU>GPU")
    # They wait for the averages, and are waited for.
    assert found.rounds == usual.rounds + 2
    new = {each.name for each in found.waits} - {each.name for each in usual.waits}
    assert {each.bytes for each in found.waits if each.name in new} == {0}
    assert found.strays == []


@pytest.fixture(scope="module")
def measured():
    """Traffic by reduction, with four towers and variables on the CPU."""
    ways = {way: steps.Step("convnet", placed={"reduction": way}) for way in get_args(Reduction)}
    return {way: steps.traffic(step, TOWERS_ADDED, benchmark.SCOPE) for way, step in ways.items()}


def test_gpus_have_all_kernels_and_do_not_wait(measured):
    assert not any(each.strays or each.waits for each in measured.values())
    transfers = {reduction: each.transfers for reduction, each in measured.items()}
    assert transfers == {"last": 1, "sharded": 2, "tree": 3}


@pytest.mark.parametrize(
    ("way", "link", "between_halves"),
    [
        ("last", PARAMETERS, 0),
        ("sharded", PARAMETERS / 4, PARAMETERS),
        ("tree", PARAMETERS / 2, PARAMETERS / 2),
    ],
)
def test_links_carry_equal_shares_of_the_gradients(measured, way, link, between_halves):
    sums = TOWERS_ADDED if way == "last" else 1
    share = 0 if way == "last" else 0.75 * PARAMETERS
    found = benchmark.reduction_row(TOWERS_ADDED, way, measured[way], unit=1)
    largest, to_cpu, to_gpu, _, halves = map(float, found[3:8])
    assert to_cpu == pytest.approx(sums * PARAMETERS, abs=SLACK)
    assert largest == pytest.approx(link, abs=SLACK)
    assert halves == pytest.approx(between_halves, abs=SLACK)
    assert to_gpu == pytest.approx(share, abs=2 * SLACK)
    links = measured[way].links(benchmark.SCOPE)
    for gpu in range(TOWERS_ADDED):
        found = flow(links, [f"GPU:{n}" for n in range(TOWERS_ADDED)], [f"GPU:{gpu}"])
        assert found == pytest.approx(share, abs=2 * SLACK)
