"""Names of classes, and the classes that a head predicts.

Owns the conversion between names and ids. Tables are made anew in every call and kept nowhere,
because a table belongs to one graph.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.checks import checked

_SHOWN = 8
"""Names that an error lists."""


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The classes of a head. Without names, the ids as decimal strings are their names."""

    n_classes: int
    names: tuple[str, ...] | None = None

    def ids(self, labels: Tensor, where: str) -> Tensor:
        """Converts names of the vocabulary, a string Tensor of any shape, to ids, int64.

        Raises:
          ValueError: Operations run eagerly, and a name is not in the vocabulary. In a graph an
            assertion checks it.
        """
        keys = tf.constant(self.names, tf.string)
        values = tf.range(self.n_classes, dtype=tf.int64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
        ids = table.lookup(labels)
        is_unknown = tf.reshape(ids < 0, [-1])
        unknown = tf.unique(tf.boolean_mask(tf.reshape(labels, [-1]), is_unknown))[0]
        return checked(
            ids,
            tf.logical_not(tf.reduce_any(is_unknown)),
            f"Cannot compute the loss of {where}: labels must be names of label_vocabulary, "
            f"{self._shown_names()}. Correct the labels in input_fn, or add the names to "
            "label_vocabulary.",
            {"unknown_labels": unknown[:_SHOWN]},
        )

    def _shown_names(self) -> str:
        names = list(self.names or ())
        more = len(names) - _SHOWN
        return f"{names[:_SHOWN]} and {more} more" if more > 0 else f"{names}"

    def names_of(self, ids: Tensor) -> Tensor:
        """Converts ids in [0, n_classes) to names, string, of the same shape."""
        if self.names is None:
            return tf.strings.as_string(ids)
        return tf.gather(tf.constant(self.names, tf.string), ids)

    def all_ids(self, logits: Tensor) -> Tensor:
        """Returns all ids for each example, int32 [D0, n_classes]."""
        ids = tf.range(self.n_classes)[tf.newaxis]
        return tf.tile(ids, [tf.shape(logits)[0], 1])

    def all_names(self, logits: Tensor) -> Tensor:
        """Returns all names for each example, string [D0, n_classes]."""
        names = self.names or tuple(map(str, range(self.n_classes)))
        return tf.tile(tf.constant([names], tf.string), [tf.shape(logits)[0], 1])


def make_vocabulary(n_classes: int, names: Sequence[str] | None, where: str) -> Vocabulary:
    """Checks the names of classes: a list or tuple of different strings, one for each, or None.

    Raises:
      ValueError: The names are of another type, of another number, or not different.
    """
    if names is None:
        return Vocabulary(n_classes)
    are_names = isinstance(names, list | tuple) and all(
        isinstance(each, str | bytes) for each in names
    )
    if not are_names:
        raise ValueError(
            f"Cannot make {where}: label_vocabulary must be a list or tuple of strings, got "
            f"{names!r}. List the names of the classes in the order of their ids."
        )
    texts = tuple(each.decode() if isinstance(each, bytes) else each for each in names)
    if len(texts) != n_classes:
        raise ValueError(
            f"Cannot make {where}: label_vocabulary has {len(texts)} names, but there are "
            f"{n_classes} classes. Give each class one name."
        )
    if len(set(texts)) != n_classes:
        raise ValueError(
            f"Cannot make {where}: label_vocabulary {list(texts)} names two classes alike. Give "
            "each class a name of its own."
        )
    return Vocabulary(n_classes, texts)
