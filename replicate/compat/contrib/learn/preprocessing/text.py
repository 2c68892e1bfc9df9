"""Texts as numbers of their words, or of their bytes.

`VocabularyProcessor.save` writes JSON. `restore` reads it, and files that TensorFlow 1 wrote by
pickling: of such a file it makes vocabularies, tokenizers and plain values, and nothing else.
"""

import importlib
import io
import json
import pickle  # noqa: TID251  # The reader below makes no other objects than those it lists.
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.compat.contrib.learn.preprocessing.categorical import CategoricalVocabulary

_ACRONYM = r"[A-Z]{2,}(?![a-z])"
_PART_OF_CAMEL_CASE = r"[A-Z][a-z]+(?=[A-Z])"
_WORD = r"[\'\w\-]+"
_TOKEN = re.compile(f"{_ACRONYM}|{_PART_OF_CAMEL_CASE}|{_WORD}", re.UNICODE)

Tokenizer = Callable[[Iterable[str]], Iterator[list[str]]]


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yields the words of each text: acronyms, parts of camel case, and words with - and '."""
    for text in iterator:
        yield _TOKEN.findall(text)


class ByteProcessor:
    """Numbers of the bytes of texts, padded with 0."""

    def __init__(self, max_document_length: int) -> None:
        """Keeps the number of bytes of each text."""
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> "ByteProcessor":
        """Learns nothing."""
        del x
        return self

    def fit_transform(self, x: Iterable[Any]) -> Iterator[Any]:
        """Yields what `transform` does."""
        return self.transform(x)

    def transform(self, x: Iterable[Any]) -> Iterator[Any]:
        """Yields the bytes of each text, [max_document_length], uint8."""
        for text in x:
            data = text.encode() if isinstance(text, str) else bytes(text)
            kept = np.frombuffer(data, "u1")[: self.max_document_length]
            yield np.pad(kept, (0, self.max_document_length - kept.size))

    def reverse(self, x: Iterable[Any]) -> Iterator[str]:
        """Yields the text of each array of bytes."""
        for each in x:
            yield np.array(each, "u1").tobytes().rstrip(b"\0").decode("utf-8", "replace")


class VocabularyProcessor:
    """Numbers of the words of texts, padded with 0.

    Attributes:
      max_document_length: Words of each text.
      min_frequency: Words with this count or a lower one are unknown, if it is not 0.
      vocabulary_: A `CategoricalVocabulary`.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Tokenizer | None = None,
    ) -> None:
        """Keeps the settings; `tokenizer` is the default tokenizer."""
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = CategoricalVocabulary() if vocabulary is None else vocabulary
        self._tokenizer: Tokenizer = tokenizer if tokenizer_fn is None else tokenizer_fn

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> "VocabularyProcessor":
        """Learns the words of texts, and freezes the vocabulary."""
        del unused_y
        for words in self._tokenizer(raw_documents):
            for each in words:
                self.vocabulary_.add(each)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[Any]:
        """Learns the words of texts and yields their numbers."""
        return self.fit(raw_documents, unused_y).transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
        """Yields the numbers of each text's words, [max_document_length], int64."""
        for words in self._tokenizer(raw_documents):
            numbers = np.zeros(self.max_document_length, "i8")
            for place, word in enumerate(words[: self.max_document_length]):
                numbers[place] = self.vocabulary_.get(word)
            yield numbers

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yields the words of each array of numbers, with spaces between."""
        for numbers in documents:
            yield " ".join(str(self.vocabulary_.reverse(each)) for each in numbers)

    def save(self, filename: str) -> None:
        """Writes the processor to a file.

        Raises:
          TypeError: The tokenizer is no function at the top of a module, or a category is no text
            and no number.
        """
        module, name = self._tokenizer.__module__, self._tokenizer.__qualname__
        if getattr(importlib.import_module(module), name, None) is not self._tokenizer:
            raise TypeError(f"VocabularyProcessor.save: move {name} to the top of its module.")
        fields = {**vars(self), "vocabulary_": None, "_tokenizer": [module, name]}
        words = {
            name: list(value.items()) if isinstance(value, dict) else value
            for name, value in vars(self.vocabulary_).items()
        }
        text = json.dumps({"processor": fields, "vocabulary": words}, default=int)
        with tf.io.gfile.GFile(filename, "wb") as file:
            file.write(text.encode())

    @classmethod
    def restore(cls, filename: str) -> "VocabularyProcessor":
        """Reads a processor from a file of `save`, or of TensorFlow 1.

        Raises:
          ValueError: The file has something else.
        """
        with tf.io.gfile.GFile(filename, "rb") as file:
            data = file.read()
        try:
            read = (
                _of_json(cls, data) if data.startswith(b"{") else _Reader(io.BytesIO(data)).load()
            )
        except (AttributeError, KeyError, pickle.UnpicklingError, EOFError) as error:
            raise ValueError(f"{filename} has no VocabularyProcessor: {error}.") from None
        if not isinstance(read, VocabularyProcessor):
            raise ValueError(f"{filename} has no VocabularyProcessor, but {type(read).__name__}.")
        return read


def _of_json(kind: type[VocabularyProcessor], data: bytes) -> VocabularyProcessor:
    fields = json.loads(data)
    processor, vocabulary = kind.__new__(kind), CategoricalVocabulary()
    for name, value in fields["vocabulary"].items():
        is_mapping = isinstance(getattr(vocabulary, name), dict)
        setattr(vocabulary, name, dict(map(tuple, value)) if is_mapping else value)
    vars(processor).update(fields["processor"], vocabulary_=vocabulary)
    module, name = fields["processor"]["_tokenizer"]
    processor._tokenizer = getattr(importlib.import_module(module), name)
    return processor


class _Reader(pickle.Unpickler):
    """Reads what TensorFlow 1 pickled; functions are those of modules that are loaded."""

    _KNOWN = {  # noqa: RUF012  # Nobody changes it.
        "VocabularyProcessor": VocabularyProcessor,
        "CategoricalVocabulary": CategoricalVocabulary,
        "tokenizer": tokenizer,
    }

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        """Returns a class or a function that a file may name."""
        if module.startswith("tensorflow.contrib.learn.") and name in self._KNOWN:
            return self._KNOWN[name]
        if (module, name) in (("collections", "defaultdict"), ("copy_reg", "_reconstructor")):
            return defaultdict if name == "defaultdict" else _reconstructed
        if module in ("builtins", "__builtin__") and name in ("int", "object", "str", "unicode"):
            return {"int": int, "object": object}.get(name, str)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _reconstructed(kind: type, base: type, state: Any) -> Any:
    """Makes an empty object, as pickles of protocol 0 and 1 ask for it."""
    del base, state
    return object.__new__(kind)
