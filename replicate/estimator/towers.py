"""Towers of an Estimator whose program does not replicate its model_fn itself.

Owns the choice between two ways to ask for them: a strategy of tf.distribute in the `RunConfig`,
and the default towers of the process. `Estimator` asks for the towers of each mode. With a
strategy, `input_batches.py` groups the batches. `replicate_model_fn` builds the model.
"""

import dataclasses
from typing import Any

from model_deploy.devices import CPU, local_devices
from replicate._types import ModelFn
from replicate.estimator.run_config import RunConfig
from replicate.estimator.strategies import StrategyRequest, strategy_request
from replicate.model_fn import replicate_model_fn
from replicate.spec import ModeKeys
from replicate.tower.default_towers import default_devices
from replicate.unmodified.marks import is_replicated, loss_reduction_of


@dataclasses.dataclass(frozen=True)
class Towers:
    """Towers of one mode of an Estimator.

    Attributes:
      devices: Device of each tower.
      one_batch_each: True if each tower takes a batch of its own from the input; False if each
        batch of the input is split.
    """

    devices: tuple[str, ...]
    one_batch_each: bool

    def replicated(self, model_fn: ModelFn) -> ModelFn:
        """Returns the model_fn on these towers, whose optimizers need not be wrapped.

        Raises:
          ValueError: A device does not exist.
        """
        return replicate_model_fn(
            model_fn,
            loss_reduction_of(model_fn),
            self.devices,
            uneven="weighted",
            wrap_optimizers=True,
        )


def towers_of(model_fn: ModelFn, config: RunConfig, mode: str) -> Towers | None:
    """Returns the towers of a mode; None if the Estimator adds none to the model.

    A strategy applies to its mode, with a batch of the input for each tower. The towers of the
    process apply to TRAIN, where they split each batch, and take the place of a strategy's devices.
    A model_fn that builds towers keeps its own. Workers of an `AllReduce` split their batches over
    their GPUs.

    Raises:
      ValueError: There is a strategy, and the model_fn builds towers.
    """
    request = _request(config, mode)
    reduces = config.all_reduce is not None and mode == ModeKeys.TRAIN
    if is_replicated(model_fn):
        if request is not None:
            raise ValueError(
                f"Cannot build the model in mode {mode!r}: the RunConfig has a strategy of "
                "tf.distribute, and the model_fn is replicated already. Leave out "
                "replicate_model_fn and devices=…, or the strategy."
            )
        return None
    devices = default_devices() if mode == ModeKeys.TRAIN or request is not None else None
    if devices is not None:
        return Towers(devices, one_batch_each=request is not None)
    if request is not None:
        return Towers(request.devices, one_batch_each=True)
    return Towers(local_devices("GPU") or (CPU,), one_batch_each=False) if reduces else None


def _request(config: RunConfig, mode: str) -> StrategyRequest | None:
    names = {ModeKeys.TRAIN: "train_distribute", ModeKeys.EVAL: "eval_distribute"}
    if mode not in names:
        return None
    setting = names[mode]
    both: Any = config.experimental_distribute
    return strategy_request(setting, getattr(config, setting)) or strategy_request(
        setting, getattr(both, setting, None)
    )
