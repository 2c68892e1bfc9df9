import numpy as np
import pytest

from kfac import placement
from kfac.placement import Devices, Place, PlacementCosts

FLOAT = 4
"""Bytes of a float32."""

SIZES = np.array(
    [147, 64]
    + [64, 64, 576, 64, 64, 256] * 3
    + [256, 128, 1152, 128, 128, 512] * 4
    + [512, 256, 2304, 256, 256, 1024] * 6
    + [1024, 512, 4608, 512, 512, 2048] * 3
    + [2049, 1000]
)
"""Rows of the two factors of each layer of a network like ResNet-50."""


def work(*costs):
    return PlacementCosts(
        cov=costs, inv=costs, blocks=[[i] for i in range(len(costs))], inv_bytes=costs
    )


def of_layers(sizes):
    """Returns the costs of layers with two factors each, with these numbers of rows."""
    return PlacementCosts(
        cov=FLOAT * sizes**2,
        inv=sizes.astype(float) ** 3,
        blocks=np.arange(len(sizes)).reshape(-1, 2),
        inv_bytes=FLOAT * sizes**2,
    )


def loads(places, costs, count):
    """Returns the sum of the costs on each device "/gpu:<number>"."""
    numbers = [int(place.compute.removeprefix("/gpu:")) for place in places]
    return np.bincount(numbers, weights=costs, minlength=count)


def devices(cov=None, inv=None, trans=None, layers=("/cpu:0",)):
    return Devices(cov, inv, trans, layers)


def test_largest_first_to_the_least_loaded():
    """Ties go by index and by the order of the devices."""
    assert placement.assign_by_cost([1, 8, 3, 5, 4], ["a", "b"]) == ["b", "a", "a", "b", "b"]
    assert placement.assign_by_cost([2, 2, 2], ["a", "b"]) == ["a", "b", "a"]
    with pytest.raises(ValueError, match=r"Cannot place 2 pieces .*: the list of devices is empty"):
        placement.assign_by_cost([1, 1], [])


@pytest.mark.parametrize("place", [placement.place_by_cost, placement.place_in_turn])
def test_an_empty_list_of_devices_means_none(place):
    assert place(work(1, 1), devices([], (), [])) == place(work(1, 1), devices())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 16])
def test_loads_of_a_deep_network(count):
    costs = of_layers(SIZES)
    names = [f"/gpu:{number}" for number in range(count)]
    found = placement.place_by_cost(costs, devices(layers=names))

    inverting = loads(found.inv, SIZES**3.0, count)
    least = np.zeros(count)
    for cost in np.sort(SIZES**3.0)[::-1]:
        least[np.argmin(least)] += cost
    assert inverting.max() <= (1 + placement.SLACK) * least.max()

    averages = loads(found.cov, FLOAT * SIZES**2, count)
    inverses = loads(found.inv, FLOAT * SIZES**2, count)
    arriving = averages * (count - 1) / 2
    needed = averages + inverses + arriving
    assert averages.sum() == inverses.sum() == FLOAT * np.sum(SIZES**2)
    # With 8 devices and more, the largest factors alone need more than the mean.
    largest = FLOAT * SIZES.max() ** 2 * (2 + (count - 1) / 2)
    assert needed.max() <= max((1 + placement.SLACK) * needed.mean(), 1.01 * largest)
    assert (largest > needed.mean()) == (count >= 8)


def test_inverses_of_a_layer_are_on_one_device_unless_that_takes_longer():
    two = ["/gpu:0", "/gpu:1"]
    uneven = placement.place_by_cost(of_layers(np.array([50, 4, 40, 30])), devices(layers=two))
    assert [place.compute[-1] for place in uneven.inv] == ["0", "0", "1", "1"]
    even = placement.place_by_cost(of_layers(np.array([50, 50])), devices(layers=two))
    assert [place.compute[-1] for place in even.inv] == ["0", "1"]


def test_inverse_of_two_layers_follows_the_first():
    names = ["a", "b", "c"]
    found = placement.gather_blocks(names, [9.0, 0.1, 9.0], [[0, 1], [1, 2]])
    assert found == ["a", "a", "c"]


@pytest.mark.parametrize(
    ("homes", "sizes", "kept", "expected"),
    [
        ("aaaa", [4, 3, 2, 1], {"a": 0, "b": 0}, "baab"),
        ("aaa", [5, 5, 5], {"a": 0, "b": 0, "c": 0}, "bca"),
        ("ab", [9, 2], {"a": 9, "b": 9}, "ab"),
        ("aab", [9, 2, 2], {"a": 4, "b": 9}, "abb"),
        ("aa", [100, 1], {"a": 0, "b": 99}, "aa"),
        ("aa", [0, 0], {"a": 5, "b": 0}, "aa"),
        ("", [], {"a": 0}, ""),
    ],
)
def test_bytes_are_balanced_by_few_moves(homes, sizes, kept, expected):
    assert placement.balance_bytes(homes, sizes, kept) == list(expected)


@pytest.mark.parametrize("named", [{"cov": ["a", "b"]}, {"inv": ["a", "b"]}])
def test_with_named_devices_each_cost_is_balanced_apart(named):
    costs = PlacementCosts(cov=[3, 2, 2], inv=[1, 9, 1], blocks=[[0, 1, 2]], inv_bytes=[30, 20, 20])
    found = placement.place_by_cost(costs, devices(**named, layers=["a", "b", "a"]))
    assert [place.compute for place in found.cov] == ["a", "b", "b"]
    assert [place.compute for place in found.inv] == ["b", "a", "b"]


def test_products_are_where_the_costliest_inverse_is_or_balanced_on_named_devices():
    costs = PlacementCosts([5, 5, 3, 4], [1, 9, 4, 1], [[0, 1], [2, 3], [3]], [1] * 4)
    found = placement.place_by_cost(costs, devices(layers=["/cpu:0", "/cpu:1"]))
    assert found.trans == [found.inv[index].compute for index in (1, 2, 3)]
    assert len(set(found.trans)) == 2
    assert placement.place_by_cost(costs, devices(trans=["a", "b"])).trans == ["a", "b", "b"]


WORKER = "/job:worker/task:1/device:GPU:0"


@pytest.mark.parametrize(
    ("given", "compute", "variables"),
    [
        (devices(layers=["/gpu:0"]), "/gpu:0", "/gpu:0"),
        (devices(layers=[WORKER]), WORKER, ""),  # In a cluster the surroundings place variables.
        (devices(["/job:ps"], ["/job:ps"], ["/gpu:0"]), "/job:ps", "/job:ps"),
    ],
)
def test_variables_follow_the_work(given, compute, variables):
    found = placement.place_by_cost(work(2), given)
    assert found.cov == found.inv == [Place(compute, variables)]


@pytest.mark.parametrize(("layers", "device"), [(["", "/gpu:0"], "/gpu:0"), ([""], ""), ([], "")])
def test_unknown_devices_count_only_if_there_are_no_others(layers, device):
    found = placement.place_by_cost(work(2, 1), devices(layers=layers))
    assert {place.compute for place in found.inv} == {device}


def test_round_robin():
    found = placement.place_in_turn(work(9, 1, 1), devices(["a", "b"], ["c", "d"], ["e", "f"]))
    assert found.cov == [Place("a", "a"), Place("b", "b"), Place("a", "a")]
    assert found.inv == [Place("c", ""), Place("d", ""), Place("c", "")]
    assert found.trans == ["e", "f", "e"]
    found = placement.place_in_turn(work(1), devices(layers=["/gpu:0"]))
    assert found == ([Place("", "")], [Place("", "")], [""])
