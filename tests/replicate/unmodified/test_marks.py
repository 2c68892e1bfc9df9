"""Marks on model_fns."""

from replicate.unmodified.marks import (
    is_replicated,
    loss_reduction_of,
    mark_replicated,
    replicated_like,
    with_loss_reduction,
)


def test_a_model_fn_around_another_has_the_marks_of_both_and_its_own_count():
    def inner(features): ...

    def outer(features):
        return features

    assert not is_replicated(inner)
    assert loss_reduction_of(inner) is None
    mark_replicated(with_loss_reduction(inner, "weighted_sum"))
    both = replicated_like(outer, inner)
    assert is_replicated(both)
    assert loss_reduction_of(both) == "weighted_sum"
    assert both(3) == 3
    assert not is_replicated(outer)
    assert loss_reduction_of(replicated_like(with_loss_reduction(outer, "mean"), inner)) == "mean"
