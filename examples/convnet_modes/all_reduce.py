"""`examples.convnet --mode=all_reduce`: equal workers that add up their gradients.

The model_fn of `examples.convnet_model`, as on one machine: what differs is a setting of the
`RunConfig`. No process only keeps variables. With K-FAC the workers sum its statistics and divide
the inverses among them.
"""

import replicate
from examples import cli, convnet_model, mnist, training
from examples.cli import RunSettings
from examples.training import Params


def run(data: mnist.Dataset, settings: RunSettings, params: Params, title: str) -> None:
    """Trains and evaluates, in the role that TF_CONFIG gives to this process."""
    reduces = replicate.AllReduce(timeout_secs=300)
    with cli.bad_input():
        _check_cluster(replicate.RunConfig(train_distribute=reduces))
    training.run(convnet_model.model_fn, data, settings, params, title, reduces)


def _check_cluster(config: replicate.RunConfig) -> None:
    """Raises ValueError if there is no cluster."""
    if not config.cluster.jobs:
        raise ValueError(
            "--mode=all_reduce needs a cluster: set the environment variable TF_CONFIG, start it "
            "by python -m replicate.launch --workers=2 --all_reduce, or take --mode=estimator"
        )
