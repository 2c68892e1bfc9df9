"""Fisher blocks: products of one layer's gradient with functions of its Fisher matrix."""

from kfac.fisher_blocks.base import FisherBlock
from kfac.fisher_blocks.conv import (
    ConvDiagonalFB,
    ConvKFCBasicFB,
    DepthwiseConvDiagonalFB,
    DepthwiseConvKFCBasicFB,
)
from kfac.fisher_blocks.dense import FullyConnectedDiagonalFB, FullyConnectedKFACBasicFB
from kfac.fisher_blocks.eigenbasis import ConvEKFACFB, EigenbasisBlock, FullyConnectedEKFACFB
from kfac.fisher_blocks.generic import NaiveDiagonalFB, NaiveFullFB
from kfac.fisher_blocks.kronecker import KroneckerBlock
from kfac.fisher_blocks.multi import (
    ConvKFCBasicMultiIndepFB,
    FullyConnectedMultiIndepFB,
    FullyConnectedSeriesFB,
)
from kfac.fisher_blocks.scale_shift import ScaleAndShiftDiagonalFB, ScaleAndShiftFullFB
from kfac.fisher_blocks.single import SingleFactorBlock
from kfac.fisher_blocks.tied import TiedEmbeddingFB
from kfac.fisher_blocks.weight_sharing import ConvReduceFB, WeightSharingFB

__all__ = [
    "ConvDiagonalFB",
    "ConvEKFACFB",
    "ConvKFCBasicFB",
    "ConvKFCBasicMultiIndepFB",
    "ConvReduceFB",
    "DepthwiseConvDiagonalFB",
    "DepthwiseConvKFCBasicFB",
    "EigenbasisBlock",
    "FisherBlock",
    "FullyConnectedDiagonalFB",
    "FullyConnectedEKFACFB",
    "FullyConnectedKFACBasicFB",
    "FullyConnectedMultiIndepFB",
    "FullyConnectedSeriesFB",
    "KroneckerBlock",
    "NaiveDiagonalFB",
    "NaiveFullFB",
    "ScaleAndShiftDiagonalFB",
    "ScaleAndShiftFullFB",
    "SingleFactorBlock",
    "TiedEmbeddingFB",
    "WeightSharingFB",
]
