"""tf.contrib.seq2seq: losses, helpers, attention and decoders of models from sequence to sequence.

Cells and layers are those of tf.nn.rnn_cell and tf.layers. Variables have the names and shapes of
TensorFlow 1.15.
"""

from replicate.compat.contrib.seq2seq.attention import (
    AttentionMechanism,
    BahdanauAttention,
    LuongAttention,
    hardmax,
)
from replicate.compat.contrib.seq2seq.attention_wrapper import (
    AttentionWrapper,
    AttentionWrapperState,
)
from replicate.compat.contrib.seq2seq.basic_decoder import BasicDecoder, BasicDecoderOutput
from replicate.compat.contrib.seq2seq.beam_search import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
)
from replicate.compat.contrib.seq2seq.beams import (
    gather_tree,
    gather_tree_from_array,
    tile_batch,
)
from replicate.compat.contrib.seq2seq.decoder import Decoder, dynamic_decode
from replicate.compat.contrib.seq2seq.helpers import (
    CustomHelper,
    GreedyEmbeddingHelper,
    Helper,
    InferenceHelper,
    SampleEmbeddingHelper,
    TrainingHelper,
)
from replicate.compat.contrib.seq2seq.loss import sequence_loss
from replicate.compat.contrib.seq2seq.monotonic import (
    BahdanauMonotonicAttention,
    LuongMonotonicAttention,
    monotonic_attention,
    safe_cumprod,
)
from replicate.compat.contrib.seq2seq.scheduled import (
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
)

__all__ = [
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "CustomHelper",
    "Decoder",
    "FinalBeamSearchDecoderOutput",
    "GreedyEmbeddingHelper",
    "Helper",
    "InferenceHelper",
    "LuongAttention",
    "LuongMonotonicAttention",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "TrainingHelper",
    "dynamic_decode",
    "gather_tree",
    "gather_tree_from_array",
    "hardmax",
    "monotonic_attention",
    "safe_cumprod",
    "sequence_loss",
    "tile_batch",
]
