"""Bytes of gradients on each link: the table of the docs, for the ConvNet."""

import pytest

from benchmarks.device_traffic import links, reductions

PARAMETERS = 4 * (5 * 5 * 1 * 16 + 16 + 5 * 5 * 16 * 16 + 16 + 784 * 10 + 10)
TOWERS = 4
SLACK = 1024
"""Bytes by which parts may differ, since small pieces are not cut off, and of checks."""


@pytest.fixture(scope="module")
def measured():
    """Traffic by reduction, with four towers and variables on the CPU."""
    rows = reductions.measure("convnet", [TOWERS], ["local"])
    return {each.reduction: each for each in rows}


@pytest.fixture
def found(measured):
    """Links of gradients by reduction."""
    return {
        reduction: links.of(each.traffic.crossings, reductions.SCOPE)
        for reduction, each in measured.items()
    }


def test_transfers_follow_each_other(measured):
    transfers = {reduction: each.traffic.transfers for reduction, each in measured.items()}
    assert transfers == {"last": 1, "sharded": 2, "tree": 3}


def test_gpus_have_all_kernels_and_do_not_wait(measured):
    for each in measured.values():
        assert each.traffic.strays == []
        assert each.traffic.waits == []


def test_all_gradients_go_to_the_cpu_with_last(found):
    assert found["last"].received("CPU:0") == pytest.approx(TOWERS * PARAMETERS, abs=SLACK)
    assert found["last"].largest == pytest.approx(PARAMETERS, abs=SLACK)


@pytest.mark.parametrize(("way", "link"), [("sharded", 4), ("tree", 2)])
def test_one_sum_goes_to_the_cpu_and_gpus_receive_equal_bytes(found, way, link):
    assert found[way].received("CPU:0") == pytest.approx(PARAMETERS, abs=SLACK)
    assert found[way].largest == pytest.approx(PARAMETERS / link, abs=SLACK)
    for gpu in range(TOWERS):
        assert found[way].received(f"GPU:{gpu}") == pytest.approx(0.75 * PARAMETERS, abs=2 * SLACK)


def test_tree_sends_half_as_much_between_halves(found):
    assert found["tree"].between_halves(TOWERS) == pytest.approx(PARAMETERS / 2, abs=SLACK)
    assert found["sharded"].between_halves(TOWERS) == pytest.approx(PARAMETERS, abs=SLACK)


def test_row_shows_bytes(measured):
    row = reductions.row(measured["last"], 1e3)
    assert row == "| local | 4 | `last` | 234.9 | 58.7 | 234.9 | 0.0 | 58.7 | 0.0 | 1 |"
    assert row.count("|") == len(reductions.HEADS) + 1
