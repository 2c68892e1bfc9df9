"""Towers that a process gives to programs."""

import pytest

from model_deploy import devices
from replicate.tower.default_towers import DefaultTowers, default_devices, default_towers


def with_gpus(monkeypatch, count):
    found = tuple(f"/device:GPU:{index}" for index in range(count))
    monkeypatch.setattr(devices, "local_devices", lambda kind=None: found if kind == "GPU" else ())


def test_towers_are_the_first_gpus(monkeypatch):
    with_gpus(monkeypatch, 3)
    assert DefaultTowers(2).resolved() == ("/device:GPU:0", "/device:GPU:1")
    with pytest.raises(ValueError, match=r"Cannot train on 4 towers: this process has 3 GPUs"):
        DefaultTowers(4).resolved()


def test_without_gpus_all_towers_are_on_the_cpu(monkeypatch):
    with_gpus(monkeypatch, 0)
    assert DefaultTowers(3).resolved() == ("/device:CPU:0",) * 3


def test_devices_are_taken_as_they_are():
    assert DefaultTowers(devices=("/gpu:0", "/gpu:0")).resolved() == ("/gpu:0", "/gpu:0")


def test_the_innermost_context_counts_and_an_error_ends_it():
    assert default_devices() is None
    with default_towers(DefaultTowers(devices=("/cpu:0",))):
        with default_towers(DefaultTowers(devices=("/cpu:1",))):
            assert default_devices() == ("/cpu:1",)
        with pytest.raises(KeyError), default_towers(DefaultTowers(2)):
            raise KeyError
        assert default_devices() == ("/cpu:0",)
    assert default_devices() is None


@pytest.mark.parametrize(
    ("count", "names", "text"),
    [
        (None, (), "Give one of them"),
        (2, ("/cpu:0",), "Give one of them"),
        (0, (), "num_towers must be a whole number >= 1, got 0"),
    ],
)
def test_number_or_devices_must_be_given(count, names, text):
    with pytest.raises(ValueError, match=text):
        DefaultTowers(count, names)
