import pytest

from kfac import placement
from kfac.placement import Place


def test_largest_first_to_the_least_loaded():
    assert placement.assign_by_cost([1, 8, 3, 5, 4], ["a", "b"]) == ["b", "a", "a", "b", "b"]


def test_ties_go_by_index_and_by_device_order():
    assert placement.assign_by_cost([2, 2, 2], ["a", "b"]) == ["a", "b", "a"]


def test_no_device():
    with pytest.raises(ValueError, match=r"Cannot place 2 K-FAC factors: the list of devices"):
        placement.assign_by_cost([1, 1], [])


def test_distinct_keeps_order():
    assert placement.distinct(["b", "a", "b"]) == ("b", "a")


def test_cost_is_cubic():
    # 10³ weighs more than 5³ + 7³ + 8³ = 980.
    places = placement.place_factors([5, 10, 7, 8], None, ["/cpu:0", "/cpu:1"])
    assert [place.compute for place in places] == ["/cpu:1", "/cpu:0", "/cpu:1", "/cpu:1"]


def test_variables_follow_the_work_on_one_machine():
    assert placement.place_factors([2], None, ["/gpu:0"]) == [Place("/gpu:0", "/gpu:0")]


def test_variables_are_left_to_the_surroundings_in_a_cluster():
    device = "/job:worker/task:1/device:GPU:0"
    assert placement.place_factors([2], None, [device]) == [Place(device, "")]


def test_named_devices_hold_the_variables_too():
    device = "/job:ps/task:0/cpu:0"
    assert placement.place_factors([2], [device], ["/gpu:0"]) == [Place(device, device)]
