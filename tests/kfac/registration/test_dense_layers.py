import pytest
import tensorflow as tf

from kfac import fisher_blocks
from kfac.fisher_blocks.dense import DenseForm

v1 = tf.compat.v1


@pytest.fixture
def weight(graph):
    return v1.get_variable("fc/w", [3, 2])


VECTORS = [4, 3], [4, 2]


def tensors(*shapes):
    return [tf.ones(shape) for shape in shapes]


def only(collection):
    (block,) = collection.get_blocks()
    return block


@pytest.mark.parametrize(
    ("approx", "form"),
    [
        ("kron", DenseForm()),
        ("kron_in_diag", DenseForm(diagonal_input=True)),
        ("kron_out_diag", DenseForm(diagonal_output=True)),
        ("kron_both_diag", DenseForm(True, True)),
    ],
)
def test_forms_of_dense_layers(collection, weight, approx, form):
    collection.register_fully_connected(weight, *tensors(*VECTORS), approx)
    block = only(collection)
    assert isinstance(block, fisher_blocks.FullyConnectedKFACBasicFB)
    assert block.settings == (() if approx == "kron" else (form,))


def test_diagonal(collection, weight):
    collection.register_fully_connected(weight, *tensors(*VECTORS), approx="diagonal")
    assert isinstance(only(collection), fisher_blocks.FullyConnectedDiagonalFB)


def test_default_approximation(collection, weight):
    collection.set_default_fully_connected_approximation("diagonal")
    collection.register_fully_connected(weight, *tensors(*VECTORS))
    assert isinstance(only(collection), fisher_blocks.FullyConnectedDiagonalFB)


@pytest.mark.parametrize("approx", ["kron", "kron_out_diag", "diagonal"])
def test_ids_need_a_diagonal_input_factor(collection, weight, approx):
    ids = tf.constant([0, 2])
    with pytest.raises(ValueError, match=r"layer 'fc/w': approx=.*dense_inputs=False.*in_diag"):
        collection.register_fully_connected(weight, ids, tf.ones([2, 2]), approx, False)
    assert not collection.fisher_blocks
    collection.register_fully_connected(weight, ids, tf.ones([2, 2]), dense_inputs=False)
    assert only(collection).settings == (DenseForm(diagonal_input=True, dense_inputs=False),)


@pytest.mark.parametrize(
    ("approx", "cls"),
    [
        (None, fisher_blocks.FullyConnectedMultiIndepFB),
        ("kron_indep_both_diag", fisher_blocks.FullyConnectedMultiIndepFB),
        ("kron_series_1", fisher_blocks.FullyConnectedSeriesFB),
        ("kron_series_2", fisher_blocks.FullyConnectedSeriesFB),
    ],
)
def test_repeated_layers(collection, weight, approx, cls):
    x, s = tensors([8, 3], [8, 2])
    collection.register_fully_connected_multi(weight, x, s, num_uses=2, approx=approx)
    assert type(only(collection)) is cls
    assert only(collection).settings[0] == 2


def test_repeated_layers_whose_uses_differ(collection, weight):
    x, s = [tf.ones([4, 3])] * 3, [tf.ones([4, 2])] * 2
    with pytest.raises(ValueError, match=r"layer 'fc/w': num_uses=2, and its tensors tell 3"):
        collection.register_fully_connected_multi(weight, x, s)
    with pytest.raises(ValueError, match=r"num_uses=None.*tell None"):
        collection.register_fully_connected_multi(weight, x[0], s[0])
    assert not collection.fisher_blocks


def test_repeated_layers_in_any_order(collection, weight):
    x, s = tensors([20, 3], [4, 5, 2])
    collection.register_fully_connected_multi(weight, x, s, num_uses=5, unordered=True)
    assert only(collection).settings[0] == 5
    for kwargs in ({"num_uses": None}, {"num_uses": 5, "approx": "kron_series_1"}):
        with pytest.raises(ValueError, match=r"'fc/w' with unordered=True: num_uses="):
            collection.register_fully_connected_multi(weight, x, s, unordered=True, **kwargs)


@pytest.mark.parametrize("approx", ["kron_indep", "kron_indep_out_diag", "kron_series_1"])
def test_ids_used_several_times_need_a_diagonal_input_factor(collection, weight, approx):
    ids, s = [tf.constant([0, 1])] * 2, [tf.ones([2, 2])] * 2
    with pytest.raises(ValueError, match=r"dense_inputs=False.*'kron_indep_in_diag'"):
        collection.register_fully_connected_multi(weight, ids, s, None, approx, False)
    collection.register_fully_connected_multi(weight, ids, s, dense_inputs=False)
    assert only(collection).settings == (2, DenseForm(diagonal_input=True, dense_inputs=False))


@pytest.mark.parametrize("default", ["kron_indep_out_diag", "kron_indep_both_diag"])
def test_ids_used_several_times_keep_the_default_for_outputs(collection, weight, default):
    collection.set_default_fully_connected_multi_approximation(default)
    ids, s = [tf.constant([0, 1])] * 2, [tf.ones([2, 2])] * 2
    collection.register_fully_connected_multi(weight, ids, s, dense_inputs=False)
    assert only(collection).settings == (2, DenseForm(True, True, False))


def test_generic(collection, weight):
    bias = v1.get_variable("fc/b", [2])
    with pytest.raises(ValueError, match=r"'fc/w': 2 parameters together with approx='diagonal'"):
        collection.register_generic((weight, bias), 4)
    assert not collection.fisher_blocks
    collection.register_generic([weight, bias], 4, approx="full")
    assert isinstance(only(collection), fisher_blocks.NaiveFullFB)


def test_generic_diagonal(collection, weight):
    collection.register_generic(weight, 4)
    collection.register_generic(weight, 8, reuse=True)
    assert isinstance(only(collection), fisher_blocks.NaiveDiagonalFB)
    assert only(collection).inputs == (4, 8)
