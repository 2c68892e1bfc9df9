"""K-FAC with nothing to tune at first: rate, momentum and damping come from the model of the loss.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.4 (learning rate and momentum), §6.5 (damping).
"""

from typing import Any

from kfac._types import Scalar
from kfac.arguments import check_names, names_of
from kfac.layer_collection import LayerCollection, graph_layer_collection
from kfac.optimizer import OF_SUBCLASSES, KfacOptimizer
from kfac.periodic import PeriodicInvCovUpdateKfacOpt
from kfac.settings import ADAPTIVE, lists_settings
from kfac.tracebacks import shows_user_frames


@shows_user_frames
@lists_settings("kfac.settings.ADAPTIVE", ADAPTIVE)
def adaptive(
    layer_collection: LayerCollection | None = None,
    *,
    damping: Scalar = ADAPTIVE.damping,
    period: int = ADAPTIVE.invert_every,
    **settings: Any,
) -> PeriodicInvCovUpdateKfacOpt:
    """Returns a K-FAC optimizer that chooses learning rate, momentum and damping by itself.

    In each step learning rate and momentum minimize the quadratic model of the loss, with the exact
    curvature of the batch. The damping begins at a multiple of the mean curvature, and adapts to
    how well the model predicts the loss of the same batch after a step: that loss is computed from
    the graph, so no second forward pass has to be written. The weights must be resource variables.

    A step that raises the loss of its batch is undone, so a batch may be small. Where batches are
    large and the loss is to fall to almost zero, as of deep autoencoders, these limits are in the
    way: pass `damping=0.1, min_damping=1e-6, damping_adaptation_interval=5,
    rejection_rho_threshold=None`, which make longer steps, and diverge on other problems.

    Args:
      layer_collection: Layers and losses; None means `graph_layer_collection()`.
      damping: First λ > 0, in multiples of the mean eigenvalue of the curvature.
      period: Steps between two computations of the inverses, ≥ 1.
      **settings: Further arguments of `PeriodicInvCovUpdateKfacOpt`, or others in place of those
        that are chosen, which are `kfac.settings.ADAPTIVE`.

    Raises:
      ValueError: A number is out of its range, or two arguments exclude each other.
      TypeError: An argument is unknown.
    """
    functions = adaptive, PeriodicInvCovUpdateKfacOpt, KfacOptimizer
    check_names("kfac.adaptive", settings, names_of(*functions) - OF_SUBCLASSES)
    layers = graph_layer_collection() if layer_collection is None else layer_collection
    arguments = {**ADAPTIVE.chosen(), "damping": damping, "invert_every": period, **settings}
    return PeriodicInvCovUpdateKfacOpt(layer_collection=layers, **arguments)
