"""Names of the approximations of a layer's block, which kind of layer has which, and the defaults.

A kind of layer starts with the default that is written here; `DefaultApproximations` lets a user
change it for one layer collection. Called by layer registration.

References:
  Martens & Grosse (2015), arXiv:1503.05671. Grosse & Martens (2016), arXiv:1602.01407.
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks".
  George, Laurent, Bouthillier, Ballas & Vincent (2018), arXiv:1806.03884 ("ekfac").
"""

import types
from collections.abc import Mapping

APPROX_KRONECKER_NAME = "kron"
APPROX_KRONECKER_IN_DIAG_NAME = "kron_in_diag"
APPROX_KRONECKER_OUT_DIAG_NAME = "kron_out_diag"
APPROX_KRONECKER_BOTH_DIAG_NAME = "kron_both_diag"
APPROX_DIAGONAL_NAME = "diagonal"
APPROX_FULL_NAME = "full"
APPROX_KRONECKER_INDEP_NAME = "kron_indep"
APPROX_KRONECKER_INDEP_IN_DIAG_NAME = "kron_indep_in_diag"
APPROX_KRONECKER_INDEP_OUT_DIAG_NAME = "kron_indep_out_diag"
APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME = "kron_indep_both_diag"
APPROX_KRONECKER_SERIES_1_NAME = "kron_series_1"
APPROX_KRONECKER_SERIES_2_NAME = "kron_series_2"
APPROX_KRONECKER_SUA_NAME = "kron_sua"
APPROX_EKFAC_NAME = "ekfac"

_KRONECKER = (
    APPROX_KRONECKER_NAME,
    APPROX_KRONECKER_IN_DIAG_NAME,
    APPROX_KRONECKER_OUT_DIAG_NAME,
    APPROX_KRONECKER_BOTH_DIAG_NAME,
)
_INDEPENDENT = (
    APPROX_KRONECKER_INDEP_NAME,
    APPROX_KRONECKER_INDEP_IN_DIAG_NAME,
    APPROX_KRONECKER_INDEP_OUT_DIAG_NAME,
    APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME,
)
_SERIES = (APPROX_KRONECKER_SERIES_1_NAME, APPROX_KRONECKER_SERIES_2_NAME)

ACCEPTED: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {
        "generic": (APPROX_DIAGONAL_NAME, APPROX_FULL_NAME),
        "fully_connected": (*_KRONECKER, APPROX_EKFAC_NAME, APPROX_DIAGONAL_NAME),
        "conv1d": (APPROX_KRONECKER_NAME, APPROX_EKFAC_NAME),
        "conv2d": (
            APPROX_KRONECKER_NAME,
            APPROX_KRONECKER_SUA_NAME,
            APPROX_EKFAC_NAME,
            APPROX_DIAGONAL_NAME,
        ),
        "convolution": (APPROX_KRONECKER_NAME, APPROX_EKFAC_NAME),
        "depthwise_conv2d": (APPROX_DIAGONAL_NAME, APPROX_KRONECKER_NAME),
        "fully_connected_multi": (*_INDEPENDENT, *_SERIES),
        "conv2d_multi": (APPROX_KRONECKER_INDEP_NAME,),
        "scale_and_shift": (APPROX_FULL_NAME, APPROX_DIAGONAL_NAME),
    }
)
"""The approximations of each kind of layer; the first is the default."""


def check_approximation(kind: str, approx: str, where: str) -> str:
    """Returns `approx` if a kind of layer has it.

    Args:
      kind: A key of `ACCEPTED`.
      approx: Name of an approximation.
      where: What is being done to which layer, for the error.

    Raises:
      ValueError: It has not.
    """
    if approx not in ACCEPTED[kind]:
        names = ", ".join(map(repr, ACCEPTED[kind]))
        raise ValueError(f"Cannot {where}: approx={approx!r}. Accepted are {names} and None.")
    return approx


class DefaultApproximations:
    """What a layer that is registered without an approximation gets, by kind of layer.

    Each setter raises ValueError if the kind of layer does not have the approximation.
    """

    def __init__(self) -> None:
        """Starts with the first of `ACCEPTED` for every kind."""
        self._default_approximations = {kind: names[0] for kind, names in ACCEPTED.items()}

    def _set_default(self, kind: str, approx: str) -> None:
        where = f"set the default approximation of {kind} layers"
        self._default_approximations[kind] = check_approximation(kind, approx, where)

    @property
    def default_generic_approximation(self) -> str:
        """What `register_generic` uses."""
        return self._default_approximations["generic"]

    def set_default_generic_approximation(self, value: str) -> None:
        """Sets what `register_generic` uses."""
        self._set_default("generic", value)

    @property
    def default_fully_connected_approximation(self) -> str:
        """What `register_fully_connected` uses."""
        return self._default_approximations["fully_connected"]

    def set_default_fully_connected_approximation(self, value: str) -> None:
        """Sets what `register_fully_connected` uses."""
        self._set_default("fully_connected", value)

    @property
    def default_conv2d_approximation(self) -> str:
        """What `register_conv2d` uses."""
        return self._default_approximations["conv2d"]

    def set_default_conv2d_approximation(self, value: str) -> None:
        """Sets what `register_conv2d` uses."""
        self._set_default("conv2d", value)

    @property
    def default_fully_connected_multi_approximation(self) -> str:
        """What `register_fully_connected_multi` uses."""
        return self._default_approximations["fully_connected_multi"]

    def set_default_fully_connected_multi_approximation(self, value: str) -> None:
        """Sets what `register_fully_connected_multi` uses."""
        self._set_default("fully_connected_multi", value)

    @property
    def default_conv2d_multi_approximation(self) -> str:
        """What `register_conv2d_multi` uses."""
        return self._default_approximations["conv2d_multi"]

    def set_default_conv2d_multi_approximation(self, value: str) -> None:
        """Sets what `register_conv2d_multi` uses."""
        self._set_default("conv2d_multi", value)

    @property
    def default_scale_and_shift_approximation(self) -> str:
        """What `register_scale_and_shift` uses."""
        return self._default_approximations["scale_and_shift"]

    def set_default_scale_and_shift_approximation(self, value: str) -> None:
        """Sets what `register_scale_and_shift` uses."""
        self._set_default("scale_and_shift", value)
