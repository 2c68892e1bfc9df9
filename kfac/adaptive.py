"""K-FAC with nothing to tune at first: rate, momentum and damping come from the model of the loss.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.4 (learning rate and momentum), §6.5 (damping).
"""

from typing import Any

from kfac._types import Scalar
from kfac.layer_collection import LayerCollection, graph_layer_collection
from kfac.periodic import PeriodicInvCovUpdateKfacOpt
from kfac.tracebacks import shows_user_frames

_CHOSEN = {
    "momentum_type": "qmodel",
    "learning_rate": None,
    "momentum": None,
    "adapt_damping": True,
    "calibrate_damping": True,
    "min_damping": 1e-6,
    "damping_adaptation_decay": 0.9,
}


@shows_user_frames
def adaptive(
    layer_collection: LayerCollection | None = None,
    *,
    damping: Scalar = 0.1,
    period: int = 5,
    **settings: Any,
) -> PeriodicInvCovUpdateKfacOpt:
    """Returns a K-FAC optimizer that chooses learning rate, momentum and damping by itself.

    In each step learning rate and momentum minimize the quadratic model of the loss, with the exact
    curvature of the batch. The damping begins at a multiple of the mean curvature, and adapts to
    how well the model predicts the loss of the same batch after a step: that loss is computed from
    the graph, so no second forward pass has to be written. The weights must be resource variables.

    This suits batches that are large enough for their curvature, such as hundreds of examples. With
    small, noisy batches, or where the loss falls to almost zero, a step may diverge: pass
    `damping=1.0, min_damping=1e-3, damping_adaptation_interval=1, rejection_rho_threshold=0.0`,
    with which a step that raises the loss of its batch is undone, or give a rate to
    `PeriodicInvCovUpdateKfacOpt` instead.

    Args:
      layer_collection: Layers and losses; None means `graph_layer_collection()`.
      damping: First λ > 0, in multiples of the mean eigenvalue of the curvature.
      period: Steps between two computations of the inverses, and between two adaptations of the
        damping, ≥ 1.
      **settings: Further arguments of `PeriodicInvCovUpdateKfacOpt`, or others in place of those
        that are chosen: `momentum_type="qmodel"`, `learning_rate=None`, `momentum=None`,
        `adapt_damping=True`, `calibrate_damping=True`, `min_damping=1e-6`,
        `damping_adaptation_decay=0.9`, and `period` for `invert_every` and
        `damping_adaptation_interval`.

    Raises:
      ValueError: A number is out of its range, or two arguments exclude each other.
    """
    periods = {"invert_every": period, "damping_adaptation_interval": period}
    layers = graph_layer_collection() if layer_collection is None else layer_collection
    arguments = {"damping": damping, **periods, **_CHOSEN, **settings}
    return PeriodicInvCovUpdateKfacOpt(layer_collection=layers, **arguments)
