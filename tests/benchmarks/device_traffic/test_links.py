"""Sums of bytes by link and by memory."""

from benchmarks.device_traffic import links
from benchmarks.device_traffic.traffic import Crossing


def crossing(source, target, size, consumer="sum/add"):
    return Crossing("x:0", "Mul", source, target, size, (consumer,), is_wait=False)


CROSSINGS = [
    crossing("GPU:0", "CPU:0", 10),
    crossing("GPU:0", "CPU:0", 5),
    crossing("GPU:0", "GPU:1", 7),
    crossing("GPU:1", "CPU:0", 3, "other"),
    crossing("GPU:2", "GPU:1", None),
    crossing("GPU:3", "GPU:1", 8),
    crossing("GPU:1", "GPU:2", 9),
]


def test_bytes_are_added_by_link():
    found = links.of(CROSSINGS)
    assert found.bytes["GPU:0", "CPU:0"] == 15
    assert ("GPU:2", "GPU:1") not in found.bytes
    assert (found.largest, found.most_received, found.most_sent) == (15, 18, 22)
    assert (found.received("GPU:1"), found.sent("GPU:1")) == (15, 12)


def test_bytes_between_halves_are_those_of_one_direction():
    assert links.of(CROSSINGS).between_halves(4) == 9
    assert links.of(CROSSINGS).between_halves(2) == 7


def test_scope_selects_by_consumers():
    assert links.of(CROSSINGS, "oth").bytes == {("GPU:1", "CPU:0"): 3}
    assert links.of([]).largest == 0
