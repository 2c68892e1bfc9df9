import pytest
import tensorflow as tf

from kfac.graph_search.records import NotRegistrableError
from kfac.graph_search.uses import Batch, has_unknown_uses, uses_per_example

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("leading", "batch", "expected"),
    [
        ([None], Batch(), 1),
        ([None, 5], Batch(), 5),
        ([5, None, 2], Batch(8, True), 10),
        ([8], Batch(8), 1),
        ([8, 5], Batch(8), 5),
        ([5, 8], Batch(8), 5),
        ([40], Batch(8, True), 5),
        ([8, 5], Batch(), 5),
    ],
)
def test_number(leading, batch, expected):
    assert uses_per_example(leading, batch, "MatMul 'a'") == expected


def test_user_gave_a_batch_size_that_does_not_divide():
    with pytest.raises(ValueError, match=r"MatMul 'a' has inputs with 10 rows, which batch_size=4"):
        uses_per_example([5, 2], Batch(4, True), "MatMul 'a'")


def test_losses_that_have_other_rows():
    with pytest.raises(NotRegistrableError, match=r"10 rows, and the losses have 4; pass batch_s"):
        uses_per_example([10], Batch(4), "MatMul 'a'")


def test_what_can_be_unknown():
    assert not has_unknown_uses([3, None])
    assert has_unknown_uses([None, 3, None])


def test_rows_that_are_not_examples(graph):
    size = v1.placeholder(tf.int32, [])
    with pytest.raises(NotRegistrableError, match=r"to 10 rows, always, while the batch has any"):
        uses_per_example([10], Batch(size), "MatMul 'a'")
    assert Batch(size).static is None
