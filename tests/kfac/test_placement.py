import pytest

from kfac import placement
from kfac.placement import Devices, Place, PlacementCosts


def work(*costs):
    return PlacementCosts(cov=costs, inv=costs, blocks=[[i] for i in range(len(costs))])


def devices(cov=None, inv=None, trans=None, layers=("/cpu:0",)):
    return Devices(cov, inv, trans, layers)


def test_largest_first_to_the_least_loaded():
    assert placement.assign_by_cost([1, 8, 3, 5, 4], ["a", "b"]) == ["b", "a", "a", "b", "b"]


def test_ties_go_by_index_and_by_device_order():
    assert placement.assign_by_cost([2, 2, 2], ["a", "b"]) == ["a", "b", "a"]


def test_in_turn():
    assert placement.assign_in_turn(5, ["a", "b"]) == ["a", "b", "a", "b", "a"]
    assert placement.assign_in_turn(2, None) == ["", ""]


@pytest.mark.parametrize("place", [placement.place_by_cost, placement.place_in_turn])
@pytest.mark.parametrize("none", [[], ()])
def test_an_empty_list_of_devices_means_none(place, none):
    assert place(work(1, 1), devices(none, none, none)) == place(work(1, 1), devices())


def test_no_device():
    with pytest.raises(ValueError, match=r"Cannot place 2 pieces .*: the list of devices is empty"):
        placement.assign_by_cost([1, 1], [])


def test_distinct_keeps_order():
    assert placement.distinct(["b", "a", "b"]) == ("b", "a")


def test_averages_and_inverses_are_balanced_apart():
    found = placement.place_by_cost(
        PlacementCosts(cov=[3, 2, 2], inv=[1, 9, 1], blocks=[[0, 1, 2]]),
        devices(layers=["/cpu:0", "/cpu:1", "/cpu:0"]),
    )
    assert [place.compute for place in found.cov] == ["/cpu:0", "/cpu:1", "/cpu:1"]
    assert [place.compute for place in found.inv] == ["/cpu:1", "/cpu:0", "/cpu:1"]


def test_products_are_where_the_costliest_inverse_is():
    found = placement.place_by_cost(
        PlacementCosts(cov=[1] * 4, inv=[1, 9, 4, 1], blocks=[[0, 1], [2, 3]]),
        devices(layers=["/cpu:0", "/cpu:1"]),
    )
    assert found.trans == ["/cpu:0", "/cpu:1"]


def test_products_on_named_devices_are_balanced():
    blocks = [[0, 1], [2, 3], [3]]
    found = placement.place_by_cost(
        PlacementCosts(cov=[5, 5, 3, 4], inv=[1] * 4, blocks=blocks), devices(trans=["a", "b"])
    )
    assert found.trans == ["a", "b", "b"]


def test_variables_follow_the_work_on_one_machine():
    found = placement.place_by_cost(work(2), devices(layers=["/gpu:0"]))
    assert found == ([Place("/gpu:0", "/gpu:0")], [Place("/gpu:0", "/gpu:0")], ["/gpu:0"])


def test_variables_are_left_to_the_surroundings_in_a_cluster():
    device = "/job:worker/task:1/device:GPU:0"
    found = placement.place_by_cost(work(2), devices(layers=[device]))
    assert found == ([Place(device, "")], [Place(device, "")], [device])


@pytest.mark.parametrize(("layers", "device"), [(["", "/gpu:0"], "/gpu:0"), ([""], ""), ([], "")])
def test_unknown_devices_count_only_if_there_are_no_others(layers, device):
    found = placement.place_by_cost(work(2, 1), devices(layers=layers))
    assert {place.compute for place in found.inv} == {device}


def test_named_devices_hold_the_variables_too():
    device = "/job:ps/task:0/cpu:0"
    found = placement.place_by_cost(work(2), devices([device], [device], layers=["/gpu:0"]))
    assert found == ([Place(device, device)], [Place(device, device)], [device])


def test_round_robin():
    found = placement.place_in_turn(work(9, 1, 1), devices(["a", "b"], ["c", "d"], ["e", "f"]))
    assert found.cov == [Place("a", "a"), Place("b", "b"), Place("a", "a")]
    assert found.inv == [Place("c", ""), Place("d", ""), Place("c", "")]
    assert found.trans == ["e", "f", "e"]


def test_round_robin_without_devices_has_no_preference():
    found = placement.place_in_turn(work(1), devices(layers=["/gpu:0"]))
    assert found == ([Place("", "")], [Place("", "")], [""])


def test_strategies():
    assert dict(placement.STRATEGIES) == {
        None: placement.place_by_cost,
        "round_robin": placement.place_in_turn,
    }
