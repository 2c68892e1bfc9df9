"""tf.contrib.legacy_seq2seq: models of lists of tensors, one for each time.

Variables have the names and shapes of TensorFlow 1.15.
"""

from replicate.compat.contrib.legacy_seq2seq.attention import (
    attention_decoder,
    embedding_attention_decoder,
)
from replicate.compat.contrib.legacy_seq2seq.decoders import embedding_rnn_decoder, rnn_decoder
from replicate.compat.contrib.legacy_seq2seq.losses import (
    sequence_loss,
    sequence_loss_by_example,
)
from replicate.compat.contrib.legacy_seq2seq.models import (
    basic_rnn_seq2seq,
    embedding_attention_seq2seq,
    embedding_rnn_seq2seq,
    model_with_buckets,
    tied_rnn_seq2seq,
)

__all__ = [
    "attention_decoder",
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "model_with_buckets",
    "rnn_decoder",
    "sequence_loss",
    "sequence_loss_by_example",
    "tied_rnn_seq2seq",
]
