import pytest

from kfac.registration import approximations
from kfac.registration.approximations import DefaultApproximations, check_approximation

DEFAULTS = {
    "generic": ("diagonal", "full"),
    "fully_connected": ("kron", "ekfac"),
    "conv2d": ("kron", "kron_sua"),
    "fully_connected_multi": ("kron_indep", "kron_series_2"),
    "conv2d_multi": ("kron_indep", "kron_indep"),
    "scale_and_shift": ("full", "diagonal"),
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_defaults(kind):
    defaults, (first, other) = DefaultApproximations(), DEFAULTS[kind]
    assert getattr(defaults, f"default_{kind}_approximation") == first
    setter = getattr(defaults, f"set_default_{kind}_approximation")
    setter(other)
    assert getattr(defaults, f"default_{kind}_approximation") == other
    with pytest.raises(ValueError, match=rf"default approximation of {kind} layers: approx='x'"):
        setter("x")
    assert getattr(defaults, f"default_{kind}_approximation") == other
    assert getattr(DefaultApproximations(), f"default_{kind}_approximation") == first


def test_check():
    assert check_approximation("conv1d", "kron", "register layer 'w'") == "kron"
    with pytest.raises(
        ValueError, match=r"register layer 'w': approx='diagonal'. Accepted are 'kr"
    ):
        check_approximation("conv1d", "diagonal", "register layer 'w'")


def test_names_are_distinct():
    names = [v for k, v in vars(approximations).items() if k.startswith("APPROX_")]
    assert len(set(names)) == len(names) == 14
