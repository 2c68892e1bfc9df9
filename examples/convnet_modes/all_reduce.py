"""`examples.convnet --mode=all_reduce` and `--mode=far_machines`: equal workers without servers.

The model_fn of `examples.convnet_model`, as on one machine: what differs is a setting of the
`RunConfig`. No process only keeps variables. In the first mode the workers add up their gradients
in each step; with K-FAC they sum its statistics and divide the inverses among them. In the second
each trains its own weights, and all meet every `--every` steps, in few bits.
"""

import replicate
from examples import cli, convnet_model, mnist, training
from examples.cli import RunSettings
from examples.training import Params

TIMEOUT_SECS = 300


def run(
    data: mnist.Dataset,
    settings: RunSettings,
    params: Params,
    title: str,
    rounds: tuple[int, int] | None = None,
) -> None:
    """Trains and evaluates, in the role that TF_CONFIG gives to this process.

    Args:
      data: Training set and test set.
      settings: Settings of the run.
      params: Of the model_fn.
      title: Of the picture of the curves.
      rounds: Steps between two rounds, and bits of a change in them; None for sums in each step.
    """
    if rounds is None:
        mode, reduces = "all_reduce", replicate.AllReduce(timeout_secs=TIMEOUT_SECS)
    else:
        every, bits = rounds
        mode = "far_machines"
        reduces = replicate.AllReduce(every=every, bits=bits, timeout_secs=TIMEOUT_SECS)
    with cli.bad_input():
        _check_cluster(replicate.RunConfig(train_distribute=reduces), mode)
    training.run(convnet_model.model_fn, data, settings, params, title, reduces)


def _check_cluster(config: replicate.RunConfig, mode: str) -> None:
    """Raises ValueError if there is no cluster."""
    if not config.cluster.jobs:
        raise ValueError(
            f"--mode={mode} needs a cluster: set the environment variable TF_CONFIG, start it "
            "by python -m replicate.launch --workers=2 --all_reduce, or take --mode=estimator"
        )
