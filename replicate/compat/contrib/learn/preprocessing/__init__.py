"""tf.contrib.learn.preprocessing: words and categories as numbers."""

from replicate.compat.contrib.learn.preprocessing.categorical import (
    CategoricalProcessor,
    CategoricalVocabulary,
)
from replicate.compat.contrib.learn.preprocessing.text import (
    ByteProcessor,
    VocabularyProcessor,
    tokenizer,
)

__all__ = [
    "ByteProcessor",
    "CategoricalProcessor",
    "CategoricalVocabulary",
    "VocabularyProcessor",
    "tokenizer",
]
