"""Names of the approximations of a layer's block, accepted and default ones by kind of layer.

The table of layers has the defaults of one layer collection, which a user may change. Called by
layer registration.

References:
  Martens & Grosse (2015), arXiv:1503.05671. Grosse & Martens (2016), arXiv:1602.01407.
  Martens, Ba & Johnson (2018), "Kronecker-factored curvature approximations for recurrent neural
  networks".
  George, Laurent, Bouthillier, Ballas & Vincent (2018), arXiv:1806.03884 ("ekfac").
  Eschenhagen, Immer, Turner, Schneider & Hennig (2023), arXiv:2311.00636 ("kron_expand" and
  "kron_reduce").
"""

import types
from collections.abc import Mapping

APPROX_KRONECKER_NAME = "kron"
"""A Kronecker product of two matrices, one of inputs and one of output gradients."""
APPROX_KRONECKER_IN_DIAG_NAME = "kron_in_diag"
"""A Kronecker product whose input factor is diagonal."""
APPROX_KRONECKER_OUT_DIAG_NAME = "kron_out_diag"
"""A Kronecker product whose output factor is diagonal."""
APPROX_KRONECKER_BOTH_DIAG_NAME = "kron_both_diag"
"""A Kronecker product of two diagonal factors."""
APPROX_DIAGONAL_NAME = "diagonal"
"""The diagonal of the layer's Fisher matrix."""
APPROX_FULL_NAME = "full"
"""The layer's whole Fisher matrix."""
APPROX_KRONECKER_INDEP_NAME = "kron_indep"
"""A Kronecker product for a layer with several uses that are assumed to be independent."""
APPROX_KRONECKER_INDEP_IN_DIAG_NAME = "kron_indep_in_diag"
"""Independent uses, and a diagonal input factor."""
APPROX_KRONECKER_INDEP_OUT_DIAG_NAME = "kron_indep_out_diag"
"""Independent uses, and a diagonal output factor."""
APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME = "kron_indep_both_diag"
"""Independent uses, and two diagonal factors."""
APPROX_KRONECKER_SERIES_1_NAME = "kron_series_1"
"""Uses that form a chain with the same correlations in both directions of time."""
APPROX_KRONECKER_SERIES_2_NAME = "kron_series_2"
"""Uses that form a long chain."""
APPROX_KRONECKER_EXPAND_NAME = "kron_expand"
"""A Kronecker product for a weight shared along positions, each of which counts as an example."""
APPROX_KRONECKER_REDUCE_NAME = "kron_reduce"
"""The same, with inputs averaged and gradients summed over the positions of an example first."""
APPROX_KRONECKER_SUA_NAME = "kron_sua"
"""A convolution's Kronecker product with activations assumed uncorrelated between pixels."""
APPROX_EKFAC_NAME = "ekfac"
"""The eigenbasis of a Kronecker product, with second moments measured in that basis."""

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
SHARING = (APPROX_KRONECKER_EXPAND_NAME, APPROX_KRONECKER_REDUCE_NAME)
"""The approximations of weights that are shared along positions.

A layer has those of its kind by default. With "kron" of a convolution, and "kron_indep" of a dense
layer with several uses, that is expand without a mask.
"""
_SERIES = (APPROX_KRONECKER_SERIES_1_NAME, APPROX_KRONECKER_SERIES_2_NAME)

ACCEPTED: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {
        "generic": (APPROX_DIAGONAL_NAME, APPROX_FULL_NAME),
        "fully_connected": (*_KRONECKER, APPROX_EKFAC_NAME, APPROX_DIAGONAL_NAME, *SHARING),
        "conv1d": (APPROX_KRONECKER_NAME, APPROX_EKFAC_NAME, *SHARING),
        "conv2d": (
            APPROX_KRONECKER_NAME,
            APPROX_KRONECKER_SUA_NAME,
            APPROX_EKFAC_NAME,
            APPROX_DIAGONAL_NAME,
            *SHARING,
        ),
        "convolution": (APPROX_KRONECKER_NAME, APPROX_EKFAC_NAME, *SHARING),
        "depthwise_conv2d": (APPROX_DIAGONAL_NAME, APPROX_KRONECKER_NAME),
        "fully_connected_multi": (*_INDEPENDENT, *_SERIES, *SHARING),
        "conv2d_multi": (APPROX_KRONECKER_INDEP_NAME, APPROX_KRONECKER_EXPAND_NAME),
        "positionwise": SHARING,
        "tied_embedding": (APPROX_KRONECKER_EXPAND_NAME,),
        "scale_and_shift": (APPROX_FULL_NAME, APPROX_DIAGONAL_NAME),
    }
)
"""The approximations of each kind of layer; the first is the default."""


def check_approximation(kind: str, approx: str, where: str) -> str:
    """Returns `approx` if a kind of layer accepts it; `where` names action and layer in the error.

    Raises:
      ValueError: The kind of layer does not accept it.
    """
    if approx not in ACCEPTED[kind]:
        names = ", ".join(map(repr, ACCEPTED[kind]))
        raise ValueError(f"Cannot {where}: approx={approx!r}. Accepted are {names} and None.")
    return approx
