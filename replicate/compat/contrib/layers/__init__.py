"""tf.contrib.layers: the layers of tf-slim, and columns and embeddings, which need no tf-slim."""

from typing import Any

from replicate.compat.contrib.layers.column_inputs import (
    check_feature_columns,
    create_feature_spec_for_parsing,
    infer_real_valued_columns,
    input_from_feature_columns,
    parse_feature_columns_from_examples,
    weighted_sum_from_feature_columns,
)
from replicate.compat.contrib.layers.embeddings import (
    bow_encoder,
    embed_sequence,
    embedding_lookup_unique,
    safe_embedding_lookup_sparse,
)
from replicate.compat.contrib.layers.feature_columns import (
    SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY,
    bucketized_column,
    crossed_column,
    embedding_column,
    one_hot_column,
    real_valued_column,
    shared_embedding_columns,
    sparse_column_with_hash_bucket,
    sparse_column_with_integerized_feature,
    sparse_column_with_keys,
    sparse_column_with_vocabulary_file,
    weighted_sparse_column,
)
from replicate.compat.contrib.repaired_slim.loading import name_of_slim, names_of_slim

__all__ = [
    "SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY",
    "bow_encoder",
    "bucketized_column",
    "check_feature_columns",
    "create_feature_spec_for_parsing",
    "crossed_column",
    "embed_sequence",
    "embedding_column",
    "embedding_lookup_unique",
    "infer_real_valued_columns",
    "input_from_feature_columns",
    "one_hot_column",
    "parse_feature_columns_from_examples",
    "real_valued_column",
    "safe_embedding_lookup_sparse",
    "shared_embedding_columns",
    "sparse_column_with_hash_bucket",
    "sparse_column_with_integerized_feature",
    "sparse_column_with_keys",
    "sparse_column_with_vocabulary_file",
    "weighted_sparse_column",
    "weighted_sum_from_feature_columns",
]

_HOMES = ("layers", "layers.layers")


def __dir__() -> list[str]:
    return sorted({*__all__, *names_of_slim(_HOMES)})


def __getattr__(name: str) -> Any:
    return name_of_slim(name, _HOMES, __name__)
