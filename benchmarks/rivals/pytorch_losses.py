"""Race of matrix optimizers, Adam and SGD in PyTorch to a training loss. Prints curves as JSON.

Muon, SOAP and Shampoo are those of pytorch_optimizer 4.1.0. SINGD 0.0.5 is used with the update
that resembles K-FAC without inverses. All programs draw the batches that the race gives, so each
step of each optimizer sees the same examples. Runs in an environment of
`benchmarks.rivals.environments`. The command line is that of `tensorflow_kfac_losses.py`.

    python -E -s pytorch_losses.py digits.npz '{"problem": "convnet", ...}'
"""

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytorch_models
import starts
import torch
import turns

MODELS = {
    "convnet": (pytorch_models.convnet, pytorch_models.convnet_loss),
    "autoencoder": (pytorch_models.autoencoder, pytorch_models.autoencoder_loss),
}

RMSPROP_GRAFTING = 3
"""Value of `LayerWiseGrafting.RMSPROP`, which pytorch_optimizer does not export."""


class Program:
    """A model and an optimizer."""

    def __init__(
        self, digits: starts.Digits, race: Mapping[str, Any], optimizer: str, setting: float
    ) -> None:
        """Builds the model, runs some warm-up steps, and starts again."""
        make, self._loss = MODELS[race["problem"]]
        if race["problem"] == "autoencoder":
            make = functools.partial(make, activation=race["activation"])
        images = torch.from_numpy(digits.images).permute(0, 3, 1, 2).contiguous()
        self._data = images, torch.from_numpy(digits.labels).long()
        self._evaluated = tuple(part[: race["evaluated"]] for part in self._data)
        self._rows = torch.from_numpy(digits.rows).long()
        for steps in (race["warm_up"], 0):
            torch.manual_seed(race["seed"])
            self._network = make(digits.start)
            options = race["options"].get(optimizer, {})
            self._optimizer = OPTIMIZERS[optimizer](self._network, setting, **options)
            self._step = 0
            self.run(steps)
            self.loss()

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds.

        A decomposition of a matrix that is not finite fails. The steps end there.
        """
        start = time.perf_counter()
        with contextlib.suppress(torch.linalg.LinAlgError):
            for rows in self._rows[self._step : self._step + steps]:
                batch = self._data[0][rows], self._data[1][rows]
                self._optimizer.zero_grad()
                self._loss(self._network(batch[0]), batch).backward()
                self._optimizer.step()
        self._step += steps
        return time.perf_counter() - start

    def loss(self) -> float:
        """Returns the mean loss over the training data that the race evaluates."""
        self._network.eval()
        with torch.no_grad():
            loss = float(self._loss(self._network(self._evaluated[0]), self._evaluated))
        self._network.train()
        return loss


def make_momentum(network: torch.nn.Module, rate: float) -> Any:
    """Returns momentum SGD."""
    return torch.optim.SGD(network.parameters(), rate, momentum=0.9)


def make_adam(network: torch.nn.Module, rate: float) -> Any:
    """Returns Adam with its defaults."""
    return torch.optim.Adam(network.parameters(), rate)


def make_muon(network: torch.nn.Module, rate: float) -> Any:
    """Returns Muon for weights and Adam for biases, with one learning rate.

    PyTorch's own Muon takes matrices only. This one flattens filters.
    """
    import pytorch_optimizer  # noqa: PLC0415

    parameters = list(network.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "use_muon": True},
        {"params": [p for p in parameters if p.ndim == 1], "use_muon": False, "lr": rate},
    ]
    return pytorch_optimizer.Muon(groups, rate, use_adjusted_lr=True, adamw_lr=rate)


def make_soap(network: torch.nn.Module, rate: float) -> Any:
    """Returns SOAP, which computes eigenvectors in every tenth step by default."""
    import pytorch_optimizer  # noqa: PLC0415

    return pytorch_optimizer.SOAP(network.parameters(), rate, weight_decay=0.0)


def make_shampoo(network: torch.nn.Module, rate: float) -> Any:
    """Returns Shampoo with blocks and grafting, which computes roots in every tenth step."""
    import pytorch_optimizer  # noqa: PLC0415

    return pytorch_optimizer.ScalableShampoo(
        network.parameters(),
        rate,
        betas=(0.9, 0.99),
        moving_average_for_momentum=True,
        start_preconditioning_step=starts.INVERT_EVERY,
        preconditioning_compute_steps=starts.INVERT_EVERY,
        graft_type=RMSPROP_GRAFTING,
    )


def make_singd(network: torch.nn.Module, rate: float, damping: float, lr_cov: float) -> Any:
    """Returns SINGD with dense factors and the update that resembles K-FAC."""
    from singd.optim.optimizer import SINGD  # noqa: PLC0415

    return SINGD(
        network,
        lr=rate,
        damping=damping,
        lr_cov=lr_cov,
        normalize_lr_cov=True,
        T=5,
        kfac_like=True,
    )


OPTIMIZERS: Mapping[str, Callable[..., Any]] = {
    "momentum": make_momentum,
    "adam": make_adam,
    "muon": make_muon,
    "soap": make_soap,
    "shampoo": make_shampoo,
    "singd": make_singd,
}


if __name__ == "__main__":
    # As many as TensorFlow and JAX use.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    turns.print_race(Program, sys.argv[1:])
