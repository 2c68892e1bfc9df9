"""Factors: moving averages of second moments, and functions of them such as damped inverses."""

from kfac.fisher_factors.base import FisherFactor, Moment
from kfac.fisher_factors.conv import (
    ConvDiagonalFactor,
    ConvInputKroneckerFactor,
    ConvOutputKroneckerFactor,
    DepthwiseConvDiagonalFactor,
)
from kfac.fisher_factors.dense import (
    DiagonalKroneckerFactor,
    FullyConnectedDiagonalFactor,
    FullyConnectedKroneckerFactor,
)
from kfac.fisher_factors.eigenbasis import (
    ConvEigenbasisFactor,
    Eigenbases,
    EigenbasisFactor,
    FullyConnectedEigenbasisFactor,
)
from kfac.fisher_factors.generic import NaiveDiagonalFactor, NaiveFullFactor
from kfac.fisher_factors.kept import Damping, MatrixSlot
from kfac.fisher_factors.matrix import DiagonalFactor, MatrixFactor
from kfac.fisher_factors.multi import FullyConnectedMultiKF
from kfac.fisher_factors.scale_shift import ScaleAndShiftDiagonalFactor, ScaleAndShiftFullFactor
from kfac.fisher_factors.sua import ConvInputSUAKroneckerFactor
from kfac.fisher_factors.tied import TiedColumnsFactor, TiedRowsFactor
from kfac.fisher_factors.weight_sharing import (
    SharedGradientFactor,
    SharedIdsFactor,
    SharedInputFactor,
)
from kfac.linalg.damped_functions import Cholesky, CholeskyInverse, MatrixFunction, Power

__all__ = [
    "Cholesky",
    "CholeskyInverse",
    "ConvDiagonalFactor",
    "ConvEigenbasisFactor",
    "ConvInputKroneckerFactor",
    "ConvInputSUAKroneckerFactor",
    "ConvOutputKroneckerFactor",
    "Damping",
    "DepthwiseConvDiagonalFactor",
    "DiagonalFactor",
    "DiagonalKroneckerFactor",
    "Eigenbases",
    "EigenbasisFactor",
    "FisherFactor",
    "FullyConnectedDiagonalFactor",
    "FullyConnectedEigenbasisFactor",
    "FullyConnectedKroneckerFactor",
    "FullyConnectedMultiKF",
    "MatrixFactor",
    "MatrixFunction",
    "MatrixSlot",
    "Moment",
    "NaiveDiagonalFactor",
    "NaiveFullFactor",
    "Power",
    "ScaleAndShiftDiagonalFactor",
    "ScaleAndShiftFullFactor",
    "SharedGradientFactor",
    "SharedIdsFactor",
    "SharedInputFactor",
    "TiedColumnsFactor",
    "TiedRowsFactor",
]
