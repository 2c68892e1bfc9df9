"""tf.contrib.cudnn_rnn: RNNs that compute what cuDNN does, on any device.

Variables have the names and shapes under which TensorFlow 1 saved those of cuDNN, so its
checkpoints load.
"""

from replicate.compat.contrib.cudnn_rnn.cells import (
    CudnnCompatibleGRUCell,
    CudnnCompatibleLSTMCell,
)
from replicate.compat.contrib.cudnn_rnn.layers import CudnnGRU, CudnnLSTM

__all__ = ["CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU", "CudnnLSTM"]
