"""Rows of the packages of tf.contrib for sequences: rnn, seq2seq, crf and lookup."""

from replicate.compat.table.row import NOTHING, Row, modules_of, same, written_here

_OURS = "replicate.compat.contrib"
_CELLS = "replicate.compat.cells"
_CELL_NAMES = (
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
)

ROWS = [
    *same("tf.nn.rnn_cell", _CELLS, _CELL_NAMES),
    *same("tf.contrib.rnn", _CELLS, (*_CELL_NAMES, "LayerRNNCell")),
    *same(
        "tf.contrib.rnn",
        "tf.nn",
        ("static_bidirectional_rnn", "static_rnn", "static_state_saving_rnn"),
    ),
    *same(
        "tf.contrib.rnn",
        f"{_OURS}.rnn",
        (
            "AttentionCellWrapper",
            "Conv1DLSTMCell",
            "Conv2DLSTMCell",
            "Conv3DLSTMCell",
            "ConvLSTMCell",
            "CoupledInputForgetGateLSTMCell",
            "EmbeddingWrapper",
            "FusedRNNCell",
            "FusedRNNCellAdaptor",
            "InputProjectionWrapper",
            "IntersectionRNNCell",
            "LSTMBlockFusedCell",
            "LSTMBlockWrapper",
            "LayerNormBasicLSTMCell",
            "NASCell",
            "OutputProjectionWrapper",
            "TimeReversedFusedRNN",
            "UGRNNCell",
            "stack_bidirectional_dynamic_rnn",
            "stack_bidirectional_rnn",
            "transpose_batch_time",
        ),
    ),
    *same(
        "tf.contrib.rnn",
        f"{_OURS}.rnn",
        ("GRUBlockCell", "GRUBlockCellV2", "LSTMBlockCell"),
        "A step is made of several operations.",
    ),
    *(
        Row(f"{module}.{old}", f"{_CELLS}.linear.{new}")
        for module in (
            "tf.contrib.rnn.python.ops.core_rnn_cell",
            "tf.contrib.rnn.python.ops.core_rnn_cell_impl",
            "tf.python.ops.rnn_cell_impl",
        )
        for old, new in (("_Linear", "Linear"), ("_linear", "linear"))
    ),
    *(
        row
        for module in ("rnn_cell", "rnn_cell_impl")
        for row in (
            *same(f"tf.python.ops.{module}", _CELLS, (*_CELL_NAMES, "LayerRNNCell")),
            Row(f"tf.python.ops.{module}._LayerRNNCell", f"{_CELLS}.LayerRNNCell"),
            Row(f"tf.python.ops.{module}._like_rnncell", f"{_CELLS}.checks.is_cell"),
        )
    ),
    *modules_of(
        "tf.contrib.rnn",
        (
            "python.ops.core_rnn",
            "python.ops.core_rnn_cell",
            "python.ops.core_rnn_cell_impl",
            "python.ops.fused_rnn_cell",
            "python.ops.gru_ops",
            "python.ops.lstm_ops",
            "python.ops.rnn",
            "python.ops.rnn_cell",
        ),
    ),
    Row("tf.contrib.rnn.*", None, NOTHING),
    *written_here("seq2seq"),
    *modules_of(
        "tf.contrib.seq2seq",
        (
            "python.ops.attention_wrapper",
            "python.ops.basic_decoder",
            "python.ops.beam_search_decoder",
            "python.ops.beam_search_ops",
            "python.ops.decoder",
            "python.ops.helper",
            "python.ops.loss",
        ),
    ),
    Row("tf.contrib.seq2seq.*", None, NOTHING),
    *written_here("legacy_seq2seq"),
    *modules_of("tf.contrib.legacy_seq2seq", ("python.ops.seq2seq",)),
    Row("tf.contrib.legacy_seq2seq.*", None, NOTHING),
    *written_here("cudnn_rnn"),
    *modules_of(
        "tf.contrib.cudnn_rnn",
        ("python.layers", "python.layers.cudnn_rnn", "python.ops.cudnn_rnn_ops"),
    ),
    Row("tf.contrib.cudnn_rnn.*", None, "Use CudnnLSTM, CudnnGRU, or tf.nn.rnn_cell.BasicRNNCell."),
    *written_here("crf"),
    *modules_of("tf.contrib.crf", ("python.ops.crf",)),
    Row("tf.contrib.crf.*", None, NOTHING),
    *written_here("lookup"),
    *same(
        "tf.contrib.lookup",
        "tf.lookup",
        ("KeyValueTensorInitializer", "TextFileIndex", "TextFileInitializer"),
    ),
    Row("tf.contrib.lookup.MutableHashTable", "tf.lookup.experimental.MutableHashTable"),
    Row("tf.contrib.lookup.MutableDenseHashTable", "tf.lookup.experimental.DenseHashTable"),
    *modules_of("tf.contrib.lookup", ("lookup_ops",)),
    Row("tf.contrib.lookup.*", None, NOTHING),
]
