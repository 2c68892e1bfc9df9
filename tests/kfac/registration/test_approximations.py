import pytest

from kfac.registration import approximations
from kfac.registration.approximations import DefaultApproximations, check_approximation


def test_defaults():
    defaults = DefaultApproximations()
    defaults.set("conv2d", "kron_sua")
    with pytest.raises(ValueError, match=r"default approximation of conv2d layers: approx='x'"):
        defaults.set("conv2d", "x")
    assert (defaults.of("conv2d"), defaults.of("conv1d")) == ("kron_sua", "kron")
    assert DefaultApproximations().of("conv2d") == "kron"


def test_check():
    assert check_approximation("conv1d", "kron", "register layer 'w'") == "kron"
    with pytest.raises(
        ValueError, match=r"register layer 'w': approx='diagonal'. Accepted are 'kr"
    ):
        check_approximation("conv1d", "diagonal", "register layer 'w'")


def test_names_are_distinct():
    names = [v for k, v in vars(approximations).items() if k.startswith("APPROX_")]
    assert len(set(names)) == len(names) == 14
