"""tf.nn.rnn_cell: the cells of TensorFlow 1, on public operations.

Arguments, defaults, and names, shapes and initializers of variables are those of TensorFlow 1.15,
so its checkpoints load. The loops that run a cell, such as `tf.nn.dynamic_rnn`, are TensorFlow's.
"""

from replicate.compat.cells.base import LayerRNNCell, RNNCell
from replicate.compat.cells.checks import assert_like_rnncell
from replicate.compat.cells.dropout import DropoutWrapper
from replicate.compat.cells.gru import GRUCell
from replicate.compat.cells.lstm import BasicLSTMCell, LSTMCell
from replicate.compat.cells.multi import MultiRNNCell
from replicate.compat.cells.simple import BasicRNNCell
from replicate.compat.cells.states import LSTMStateTuple
from replicate.compat.cells.wrappers import DeviceWrapper, ResidualWrapper

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerRNNCell",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
    "assert_like_rnncell",
]
