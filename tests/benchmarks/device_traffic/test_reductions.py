"""Bytes of gradients on each link: the table of the docs, for the ConvNet."""

import pytest

from benchmarks.device_traffic import links, reductions, steps

PARAMETERS = 4 * (5 * 5 * 1 * 16 + 16 + 5 * 5 * 16 * 16 + 16 + 784 * 10 + 10)
TOWERS = 4
SLACK = 1024
"""Bytes by which parts may differ, since small pieces are not cut off, and of checks."""


@pytest.fixture(scope="module")
def found():
    """Links of gradients by reduction, with four towers and variables on the CPU."""
    names = {"last": "momentum", "tree": "momentum, tree", "sharded": "momentum, sharded"}
    traffic = {way: steps.traffic(name, TOWERS) for way, name in names.items()}
    transfers = {way: each.transfers for way, each in traffic.items()}
    assert transfers == {"last": 2, "sharded": 3, "tree": 4}
    return {way: links.of(each.crossings, reductions.SCOPE) for way, each in traffic.items()}


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


def test_row_shows_bytes():
    traffic = steps.traffic("momentum", 2)
    row = reductions.row(reductions.Measured("local", 2, "last", traffic), 1e3)
    assert row == "| local | 2 | `last` | 117.5 | 58.7 | 117.5 | 0.0 | 58.7 | 0.0 | 2 |"
    assert row.count("|") == len(reductions.HEADS) + 1
