"""Which optimizer the modes with a plain graph take, and who refreshes K-FAC's curvature.

By itself, that is one line; by hand is for programs that want another order, or other moments.
Called by `single_machine` and `multitower`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import kfac
from examples import convnet_model, kfac_by_hand
from examples.training import Params

v1 = tf.compat.v1


def minimize(loss: Any, params: Params, devices: Sequence[str] | None = None) -> Any:
    """Returns an op that makes a step with the optimizer that `params` names.

    Args:
      loss: The mean over the batch, shape []. For kfac, all layers are registered in the graph's
        layer collection.
      params: As for `convnet_model.model_fn`; and for kfac "kfac_updates", "by_hand" or "periodic".
      devices: Where K-FAC works, taken in turn if chained by hand; None leaves that to it.
    """
    step = v1.train.get_or_create_global_step()
    if params["optimizer"] != "kfac" or params["kfac_updates"] == "periodic":
        return convnet_model.make_optimizer(params).minimize(loss, global_step=step)
    optimizer = kfac.KfacOptimizer(
        **convnet_model.kfac_arguments(params),
        placement_strategy="round_robin",
        cov_devices=devices,
        inv_devices=devices,
    )
    return kfac_by_hand.minimize(optimizer, loss, step, convnet_model.INVERT_EVERY)
