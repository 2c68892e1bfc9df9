import numpy as np
import pytest
import tensorflow as tf

from kfac.graph_search.layer_uses import (
    Batch,
    Place,
    has_unknown_uses,
    uses_by_place,
    uses_per_example,
)
from kfac.graph_search.records import NotRegistrableError

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
        ([40], Batch(np.int64(8), True), 5),
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
    with pytest.raises(NotRegistrableError, match=r"to 10 rows, but the size of the batch varies"):
        uses_per_example([10], Batch(size), "MatMul 'a'")
    assert Batch(size).static is None


def places(*leading):
    return [Place(sizes, f"MatMul {number}") for number, sizes in enumerate(leading)]


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize(
    ("leading", "examples", "expected"),
    [
        ([[32], [32]], 16, [2, 2]),
        ([[32], [64]], 32, [1, 2]),
        ([[None], [64]], 32, [1, 2]),
        ([[16], [16]], 32, [1, 1]),
        ([[24], [8]], 32, [1, 1]),
        ([[16], [16], [16]], 32, [1, 1, 1]),
        ([[16, 5], [16, 5]], 32, [5, 5]),
    ],
)
def test_uses_by_place(leading, examples, expected, is_given):
    assert uses_by_place(places(*leading), Batch(examples, is_given)) == expected


def test_one_place_with_a_part_of_the_losses_rows():
    assert uses_by_place(places([16]), Batch(32)) == [1]
    with pytest.raises(ValueError, match=r"with 16 rows, which batch_size=32 does not divide"):
        uses_by_place(places([16]), Batch(32, True))


@pytest.mark.parametrize("leading", [[[24], [24]], [[24]], [[1]], [[1], [16]]])
def test_places_that_are_no_part_of_the_losses_rows(leading):
    with pytest.raises(NotRegistrableError, match=r"rows, and the losses have 32"):
        uses_by_place(places(*leading), Batch(32))
