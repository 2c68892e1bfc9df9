"""Which optimizer the modes with a plain graph take, and who refreshes K-FAC's curvature.

By itself, that is one line; by hand is for programs that want another order, or other moments.
Called by `single_machine`, `multitower` and `examples.convnet_tutorial`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import kfac
from examples import convnet_model, kfac_by_hand
from examples.training import Params

v1 = tf.compat.v1


def minimize(
    loss: Any,
    params: Params,
    devices: Sequence[str] | None = None,
    layers: kfac.LayerCollection | None = None,
) -> Any:
    """Returns an op that makes a step with the optimizer that `params` names.

    Args:
      loss: The mean over the batch, shape [].
      params: As for `convnet_model.model_fn`; and for kfac "kfac_updates", "by_hand" or "periodic".
      devices: Where K-FAC works, taken in turn; none leaves that to it.
      layers: Where all layers are registered, for kfac; None means in the graph's own collection.
    """
    step = v1.train.get_or_create_global_step()
    if params["optimizer"] != "kfac":
        return convnet_model.make_optimizer(params).minimize(loss, global_step=step)
    arguments = convnet_model.kfac_arguments(params, layers)
    if devices:
        in_turn = dict.fromkeys(("cov_devices", "inv_devices", "trans_devices"), devices)
        arguments |= {"placement_strategy": "round_robin", **in_turn}
    every = convnet_model.INVERT_EVERY
    if params["kfac_updates"] == "periodic":
        optimizer = kfac.PeriodicInvCovUpdateKfacOpt(invert_every=every, **arguments)
        return optimizer.minimize(loss, global_step=step)
    return kfac_by_hand.minimize(kfac.KfacOptimizer(**arguments), loss, step, every)
