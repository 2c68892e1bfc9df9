"""Embeddings of sequences and bags of ids, with the variables of tf.contrib.layers."""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_COLLECTIONS = (v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.MODEL_VARIABLES)


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> Any:
    """Looks up each embedding once, however often its id occurs.

    Args:
      params: Table [ids, dimension], or its parts.
      ids: Integer Tensor of any shape.
      partition_strategy: "mod" or "div", of the parts.
      name: Name of the operation.

    Returns:
      Tensor of the shape of `ids` with the dimension appended.
    """
    with v1.name_scope(name, "EmbeddingLookupUnique", [ids]):
        ids = tf.convert_to_tensor(ids)
        unique, places = tf.unique(tf.reshape(ids, [-1]))
        rows = v1.nn.embedding_lookup(params, unique, partition_strategy=partition_strategy)
        embedded = tf.gather(rows, places)
        shape = tf.concat([tf.shape(ids), tf.shape(rows)[1:]], axis=0)
        result = tf.reshape(embedded, shape)
        result.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return result


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> Any:
    """Embeds sequences of ids; the table is the variable `embeddings` in the scope "EmbedSequence".

    Args:
      ids: Integer Tensor [batch, length].
      vocab_size: Number of ids.
      embed_dim: Length of an embedding.
      unique: True to look up each id once.
      initializer: Initializer of the table.
      regularizer: Regularizer of the table.
      trainable: True if the table is trained.
      scope: Name or scope of the variable.
      reuse: True to use the table of the scope again; then the sizes may be left out.

    Returns:
      Tensor [batch, length, embed_dim].

    Raises:
      ValueError: A size is missing, and no table is reused.
    """
    if not reuse and (vocab_size is None or embed_dim is None):
        raise ValueError(
            f"embed_sequence got vocab_size={vocab_size!r} and embed_dim={embed_dim!r}: give both, "
            "or reuse=True and the scope of a table."
        )
    with v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        known = vocab_size is not None and embed_dim is not None
        table = _table(
            [vocab_size, embed_dim] if known else None, initializer, regularizer, trainable
        )
        lookup = embedding_lookup_unique if unique else v1.nn.embedding_lookup
        return lookup(table, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> Any:
    """Averages the embeddings of each bag; the table is `embeddings` in the scope "BowEncoder".

    Args:
      ids: Integer Tensor [batch, length], or a SparseTensor of it with `sparse_lookup`.
      vocab_size: Number of ids.
      embed_dim: Length of an embedding.
      sparse_lookup: True to leave out the id 0 of a dense Tensor, which stands for padding.
      initializer: Initializer of the table.
      regularizer: Regularizer of the table.
      trainable: True if the table is trained.
      scope: Name or scope of the variable.
      reuse: True to use the table of the scope again.

    Returns:
      Tensor [batch, embed_dim].

    Raises:
      TypeError: The ids are sparse, and sparse_lookup is False.
    """
    is_sparse = isinstance(ids, tf.SparseTensor)
    if is_sparse and not sparse_lookup:
        raise TypeError("bow_encoder got a SparseTensor and sparse_lookup=False: give a Tensor.")
    with v1.variable_scope(scope, "BowEncoder", [ids], reuse=reuse):
        table = _table([vocab_size, embed_dim], initializer, regularizer, trainable)
        if not sparse_lookup:
            return tf.reduce_mean(v1.nn.embedding_lookup(table, ids), axis=1)
        sparse = ids if is_sparse else tf.sparse.from_dense(ids)
        return v1.nn.embedding_lookup_sparse(table, sparse, None, combiner="mean")


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = None,
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Any:
    """Looks up sparse ids; rows without ids, or with weights of 0 or less only, give `default_id`.

    Args:
      embedding_weights: Table [ids, dimension], or its parts.
      sparse_ids: SparseTensor [batch, length] of ids.
      sparse_weights: SparseTensor of their weights, or None.
      combiner: "mean", "sum" or "sqrtn"; None is "mean".
      default_id: Id of empty rows; None gives zeros.
      name: Name of the operation.
      partition_strategy: "div" or "mod", of the parts.
      max_norm: Greatest norm of an embedding, or None.

    Returns:
      Tensor [batch, dimension].
    """
    return v1.nn.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or "mean",
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


def _table(shape: Any, initializer: Any, regularizer: Any, trainable: bool) -> Any:
    return v1.get_variable(
        "embeddings",
        shape,
        tf.float32,
        initializer,
        regularizer,
        trainable,
        collections=list(_COLLECTIONS),
    )
