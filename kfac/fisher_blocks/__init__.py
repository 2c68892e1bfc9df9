"""Fisher blocks: how the gradient of one layer is multiplied by an inverse Fisher matrix."""

from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_blocks.conv import ConvKFCBasicFB
from kfac.fisher_blocks.dense import FullyConnectedKFACBasicFB
from kfac.fisher_blocks.kronecker import KroneckerBlock

__all__ = [
    "ConvKFCBasicFB",
    "FisherBlock",
    "FullyConnectedKFACBasicFB",
    "KroneckerBlock",
]
