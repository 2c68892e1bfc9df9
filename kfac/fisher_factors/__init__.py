"""Kronecker factors: moving averages of second moments and their damped inverses."""

from kfac.fisher_factors.base import FisherFactor
from kfac.fisher_factors.conv import ConvInputKroneckerFactor, ConvOutputKroneckerFactor
from kfac.fisher_factors.dense import FullyConnectedKroneckerFactor
from kfac.fisher_factors.inverse import InverseSlot

__all__ = [
    "ConvInputKroneckerFactor",
    "ConvOutputKroneckerFactor",
    "FisherFactor",
    "FullyConnectedKroneckerFactor",
    "InverseSlot",
]
