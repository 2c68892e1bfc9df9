"""Parts of the terms of a loss that a tower contributes to the loss of the whole batch.

The towers' losses are averaged by their rows. A mean that divides by another number, such as that
of the steps that are not masked, is corrected for it here, and so is a sum beside means.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from replicate._types import Tensor
from replicate.keras_model.batch_counts import Batch, Counts, counts_of_batches
from replicate.keras_model.losses import LossTerm
from replicate.tower.build import current_build


def values_in_tower(
    terms: Sequence[LossTerm], terms_of: Callable[[Batch], Sequence[LossTerm]]
) -> list[Tensor]:
    """Returns the values of terms, scalars, such that the towers' losses make that of the batch.

    Args:
      terms: Terms of the current tower, or of a graph without towers.
      terms_of: Makes the model in the default graph, and returns its terms for a batch.
    """
    build = current_build()
    tower = build.tower if build else None
    if build is None or tower is None or tower.count == 1 or build.settings.one_batch_each:
        return [term.value() for term in terms]
    counts: Counts | None = None
    if any(term.divisor() is not None for term in terms):
        batches = [Batch(*each) for each in build.batches]
        counts = build.shared(
            lambda: counts_of_batches(lambda each: _counts(terms_of(each)), batches)
        )
    share = build.gradient_share.share
    return [_value(term, share, (counts or {}).get(term.name)) for term in terms]


def _counts(terms: Sequence[LossTerm]) -> Counts:
    divisors = {term.name: term.divisor() for term in terms}
    return {name: divisor for name, divisor in divisors.items() if divisor is not None}


def _value(term: LossTerm, share: Tensor | float, count: Tensor | None) -> Tensor:
    """Returns a value whose product with the tower's share is the tower's part of the term."""
    if count is not None:
        return tf.math.divide_no_nan(term.sum(), count * tf.cast(share, count.dtype))
    if term.is_sum:
        return tf.math.divide_no_nan(term.value(), tf.cast(share, tf.float32))
    return term.value()
