"""tf.contrib.rnn: the cells and loops that tf.nn has not.

All cells derive from `tf.nn.rnn_cell.RNNCell`, and states of LSTM cells are those of tf.nn:
`tf.nn.rnn_cell.LSTMStateTuple`. Variables have the names and shapes of TensorFlow 1.15.
"""

from replicate.compat.cells.linear import Linear, linear
from replicate.compat.contrib.rnn.attention import AttentionCellWrapper
from replicate.compat.contrib.rnn.block_cells import GRUBlockCell, GRUBlockCellV2, LSTMBlockCell
from replicate.compat.contrib.rnn.convolutional import (
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    ConvLSTMCell,
)
from replicate.compat.contrib.rnn.coupled import CoupledInputForgetGateLSTMCell
from replicate.compat.contrib.rnn.fused import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    LSTMBlockFusedCell,
    LSTMBlockWrapper,
    TimeReversedFusedRNN,
)
from replicate.compat.contrib.rnn.gated import IntersectionRNNCell, UGRNNCell
from replicate.compat.contrib.rnn.layer_norm import LayerNormBasicLSTMCell
from replicate.compat.contrib.rnn.nas import NASCell
from replicate.compat.contrib.rnn.stacks import (
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    transpose_batch_time,
)
from replicate.compat.contrib.rnn.wrappers import (
    EmbeddingWrapper,
    InputProjectionWrapper,
    OutputProjectionWrapper,
)

__all__ = [
    "AttentionCellWrapper",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "EmbeddingWrapper",
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "InputProjectionWrapper",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMBlockWrapper",
    "LayerNormBasicLSTMCell",
    "Linear",
    "NASCell",
    "OutputProjectionWrapper",
    "TimeReversedFusedRNN",
    "UGRNNCell",
    "linear",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "transpose_batch_time",
]
