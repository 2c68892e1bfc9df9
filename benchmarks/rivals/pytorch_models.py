"""Models of the benchmarks in PyTorch, with given initial weights, and their losses.

`pytorch_losses.py` trains these models. Their layers are `torch.nn.Linear` and `torch.nn.Conv2d`,
which K-FAC-like optimizers look for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]
"""Images [batch, 1, height, width] and digits [batch]."""


def convnet(start: Sequence[Any]) -> nn.Sequential:
    """Returns two convolutions with pooling and a linear layer.

    Height and width must be even before each pooling. Only then do windows that begin at the first
    row, and end beyond the last one, equal TensorFlow's "SAME".

    Args:
      start: Initial [weights, bias, weights, bias, ...] as in TensorFlow: filters [height, width,
        inputs, outputs], and a matrix whose rows have the order height, width, channel.
    """
    *convolutions, (matrix, matrix_bias) = _pairs(start)
    parts: list[nn.Module] = []
    for filters, bias in convolutions:
        size, _, inputs, outputs = filters.shape
        layer = nn.Conv2d(inputs, outputs, size, padding="same")
        _load(layer, filters.transpose(3, 2, 0, 1), bias)
        parts += [layer, nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    # PyTorch flattens images in the order channel, height, width.
    channels = len(convolutions[-1][1])
    side = int((len(matrix) // channels) ** 0.5)
    rows = matrix.reshape(side, side, channels, -1).transpose(2, 0, 1, 3)
    linear = _linear(rows.reshape(matrix.shape), matrix_bias)
    return nn.Sequential(*parts, nn.Flatten(), linear)


def autoencoder(start: Sequence[Any], activation: str) -> nn.Sequential:
    """Returns a network with an activation in all layers but the code and the last one.

    Weights are [inputs, outputs]; each is followed by its bias.
    """
    pairs = _pairs(start)
    parts: list[nn.Module] = [nn.Flatten()]
    for index, (weights, bias) in enumerate(pairs):
        parts.append(_linear(weights, bias))
        if index not in (len(pairs) // 2 - 1, len(pairs) - 1):
            parts.append(ACTIVATIONS[activation]())
    return nn.Sequential(*parts)


ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
"""Activations by their names in TensorFlow."""


def convnet_loss(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Returns the mean cross entropy of the digits."""
    return nn.functional.cross_entropy(outputs, batch[1])


def autoencoder_loss(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Returns the sigmoid cross entropy, summed over pixels, mean over examples."""
    images = batch[0].flatten(1)
    total = nn.functional.binary_cross_entropy_with_logits(outputs, images, reduction="sum")
    return total / len(images)


def _pairs(start: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(start[::2], start[1::2], strict=True))


def _linear(weights: Any, bias: Any) -> nn.Linear:
    """Returns a layer with the given weights [inputs, outputs] and bias [outputs]."""
    layer = nn.Linear(*weights.shape)
    _load(layer, weights.T, bias)
    return layer


def _load(layer: nn.Linear | nn.Conv2d, weights: Any, bias: Any) -> None:
    arrays = {"weight": weights, "bias": bias}
    state = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    layer.load_state_dict(state)
