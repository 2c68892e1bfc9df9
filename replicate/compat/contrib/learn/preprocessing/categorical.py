"""Vocabularies: numbers for categories, in the order in which they are met."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np


class CategoricalVocabulary:
    """Numbers of categories. 0 is the unknown one."""

    def __init__(
        self,
        unknown_token: str = "<UNK>",  # noqa: S107  # It is a word.
        support_reverse: bool = True,
    ) -> None:
        """Makes a vocabulary of the unknown category; `support_reverse` allows `reverse`."""
        self._unknown_token = unknown_token
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._support_reverse = support_reverse
        self._reverse_mapping: list[Any] = [unknown_token]
        self._freq: dict[Any, int] = {}
        self._freeze = False

    def __len__(self) -> int:
        """Returns the number of categories, with the unknown one."""
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Lets new categories be unknown, or no longer so."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """Returns the number of a category; a new one gets the next, or 0 if this is frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._support_reverse:
                self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Counts a category, if it is known or becomes so."""
        if self.get(category) > 0:
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Drops categories by their counts and numbers the rest, the most frequent first.

        Args:
          min_frequency: Categories with this count or a lower one go.
          max_frequency: Categories with this count or a higher one go, none for -1.
        """
        kept: dict[Any, int] = {}
        for category, count in sorted(
            sorted(self._freq.items(), key=_name_of), key=lambda pair: pair[1], reverse=True
        ):
            if count > min_frequency and (max_frequency <= 0 or count < max_frequency):
                kept[category] = count
        self._freq = kept
        self._reverse_mapping = [self._unknown_token, *kept]
        self._mapping = {category: i for i, category in enumerate(self._reverse_mapping)}

    def reverse(self, class_id: int) -> Any:
        """Returns the category of a number.

        Raises:
          ValueError: The vocabulary was made with support_reverse=False.
        """
        if not self._support_reverse:
            raise ValueError("CategoricalVocabulary.reverse needs support_reverse=True.")
        return self._reverse_mapping[class_id]


def _name_of(pair: tuple[Any, int]) -> tuple[bool, Any]:
    """Returns the key that orders categories of one count."""
    return isinstance(pair[0], str), pair[0]


class CategoricalProcessor:
    """Numbers of several columns of categories, each with a vocabulary of its own."""

    def __init__(
        self,
        min_frequency: int = 0,
        share: bool = False,
        vocabularies: Iterable[CategoricalVocabulary] | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
          min_frequency: Categories with this count or a lower one are unknown.
          share: True for one vocabulary of all columns.
          vocabularies: Vocabularies of the columns, made by `fit` by default.
        """
        self.min_frequency = min_frequency
        self.share = share
        self.vocabularies_ = None if vocabularies is None else list(vocabularies)

    def freeze(self, freeze: bool = True) -> None:
        """Lets new categories be unknown, or no longer so."""
        for each in self.vocabularies_ or ():
            each.freeze(freeze)

    def fit(self, x: Iterable[Iterable[Any]], unused_y: Any = None) -> "CategoricalProcessor":
        """Learns the categories of rows, [rows, columns], and freezes the vocabularies."""
        for row in x:
            values = list(row)
            if self.vocabularies_ is None:
                shared = CategoricalVocabulary()
                self.vocabularies_ = [
                    shared if self.share else CategoricalVocabulary() for _ in values
                ]
            for vocabulary, value in zip(self.vocabularies_, values, strict=False):
                if not _is_nan(value):
                    vocabulary.add(value)
        if self.min_frequency > 0:
            for each in self.vocabularies_ or ():
                each.trim(self.min_frequency)
        self.freeze()
        return self

    def fit_transform(self, x: Any, unused_y: Any = None) -> Iterator[Any]:
        """Learns the categories of rows and yields their numbers."""
        return self.fit(x).transform(x)

    def transform(self, x: Iterable[Iterable[Any]]) -> Iterator[Any]:
        """Yields the numbers of each row, [columns], int64; NaN is unknown."""
        self.freeze()
        for row in x:
            pairs = zip(self.vocabularies_ or (), row, strict=False)
            yield np.array([0 if _is_nan(value) else voc.get(value) for voc, value in pairs], "i8")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)
