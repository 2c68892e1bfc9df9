"""Optimizers of the modes with a plain graph, with K-FAC's updates automatic or chained by hand.

Automatic updates take one line. Use updates by hand for another order or another schedule.
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
      devices: Devices of K-FAC's updates, taken in turn. If empty, K-FAC chooses.
      layers: Collection of all registered layers, for kfac. None means the graph's own one.
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
