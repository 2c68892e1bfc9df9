"""Several batches give the averages of the one batch that they are parts of; or all refuse it."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature import averaging
from kfac.curvature.averaging import BatchSums, fold_batch
from kfac.fisher_factors import FullyConnectedKroneckerFactor, MatrixFactor, Moment
from kfac.placement import Place
from kfac.state import assign_all

v1 = tf.compat.v1
SIZES = (3, 5, 4)
"""Examples of the micro-batches that `batch` is cut into."""
X = np.arange(12.0).reshape(4, 3)
DEVICES = ["/cpu:0", "/cpu:0", "/cpu:1"]


def parts_of(batch):
    """Cuts the batch into micro-batches of different size."""
    ends = np.cumsum(SIZES)[:-1]
    return list(zip(*(np.split(array, ends) for array in batch), strict=True))


def averages_of(optimizer):
    return [factor.cov_variables[:2] for factor in optimizer.factors]


def assert_close(found, expected):
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.fixture
def accumulating(build_network, build_mlp, session):
    """A function that makes (optimizer, op that adds a micro-batch, update op, network).

    The network has a convolution, or is one dense layer.
    """

    def make(use_resource=True, is_small=True, **settings):
        if is_small:
            network = build_mlp(use_resource=use_resource, layers=1)
        else:
            network = build_network(dtype="float64", use_resource=use_resource)
        with v1.variable_scope("", use_resource=use_resource):
            optimizer = network.periodic(**settings)
            add = optimizer.accumulate_statistics()
            update = optimizer.kfac_update_ops()
        session.run(v1.global_variables_initializer())
        return optimizer, add, update, network

    return make


@pytest.fixture
def expected(build_network, batch):
    """Averages and inverses after an update from the whole batch, in a graph of its own."""
    with tf.Graph().as_default(), v1.Session() as session:
        network = build_network(dtype="float64")
        optimizer = network.periodic()
        update = optimizer.kfac_update_ops()
        session.run(v1.global_variables_initializer())
        session.run(update, network.share(batch))
        return session.run([averages_of(optimizer), optimizer._estimator.inv_variables])


def test_parts_count_as_the_whole(accumulating, session, batch, expected):
    optimizer, add, update, network = accumulating(False, False, cov_update_every=2)
    parts = parts_of(batch)
    for x, y in parts:
        session.run(add, network.feed([x], [y]))
    session.run(update, network.feed(*([a] for a in parts[-1])))
    assert_close(
        session.run([averages_of(optimizer), optimizer._estimator.inv_variables]), expected
    )


def test_sums_start_anew_after_an_update(accumulating, session, batch, expected):
    """A micro-batch that is not finite is left out."""
    optimizer, add, update, network = accumulating(is_small=False, cov_ema_decay=0.0)
    x, y = batch
    session.run(add, network.feed([2 * x], [y]))
    session.run(update, network.feed([x], [y]))
    parts = parts_of(batch)
    bad = (np.full_like(parts[0][0], np.nan), parts[0][1])
    for part in [parts[0], bad, *parts[1:]]:
        session.run(add, network.feed(*([a] for a in part)))
    session.run(update, network.feed([bad[0]], [bad[1]]))
    assert_close(
        session.run([averages_of(optimizer), optimizer._estimator.inv_variables]), expected
    )
    by_name = {v.op.name: v for v in optimizer._estimator.cov_variables}
    assert session.run(by_name["kfac/refused_batches"]) == 1


def test_every_micro_batch_draws_its_own_targets(accumulating, session, rows):
    optimizer, add, update, network = accumulating(estimation_mode="gradients")
    feed = network.share(rows)
    sample_step = optimizer._estimator.cov_variables[-1]
    total = next(
        v for v in optimizer._estimator.cov_variables if v.op.name.endswith("output/batch_sum")
    )
    sums = [np.zeros(total.shape)]
    for _ in range(2):
        session.run(add, feed)
        sums.append(session.run(total))
    assert np.abs((sums[2] - sums[1]) - (sums[1] - sums[0])).max() > 1e-3
    session.run(update, feed)
    assert session.run(sample_step) == 2


def test_nothing_is_added_or_averaged_from_nothing(accumulating, session, rows):
    """Nothing is added before an update is due; an update from nothing is refused."""
    optimizer, add, update, network = accumulating(cov_update_every=2)
    feed = network.share(rows)
    session.run(update, feed)
    for total, weight, refused in session.run([f.cov_variables for f in optimizer.factors]):
        assert not total.any()
        assert (weight, refused) == (0, 1)
    state = optimizer._estimator.cov_variables
    session.run(v1.assign(optimizer.counter, 1))
    before = session.run(state)
    session.run(add, feed)
    assert_close(session.run(state), before)


def test_thunks_take_their_own_sums(accumulating, session, rows):
    optimizer, add, update, network = accumulating()
    thunks = [make() for make in optimizer.make_vars_and_create_op_thunks()[0]]
    found = []
    for updates in (thunks, update):
        session.run(v1.variables_initializer(optimizer._estimator.cov_variables))
        for x, y in parts_of(rows):
            session.run(add, network.feed([x], [y]))
        session.run(updates, network.share(rows))
        found.append(session.run(averages_of(optimizer)))
    assert_close(*found)
    assert all(total.any() for total, _ in found[0])


def test_what_is_added_while_the_sums_are_taken_stays(graph, session):
    rows = v1.placeholder(tf.float64, [None, 2])
    factor = FullyConnectedKroneckerFactor(((rows,),), False, ("",), name="fc/input")
    sums = BatchSums([factor], [Place("", "")])
    [statistic], taken = sums.taken([0])
    # Another worker adds after the sums are read, and before they are emptied.
    with v1.control_dependencies([statistic]):
        add = assign_all(sums.added({}, tf.constant(True)))
    with v1.control_dependencies([add]):
        take = assign_all([change._replace(value=tf.identity(change.value)) for change in taken])
    session.run(v1.global_variables_initializer())
    session.run(take, {rows: [[1, 2], [3, 4]]})
    session.run(take, {rows: [[5, 6]]})
    np.testing.assert_array_equal(session.run(sums.variables[0]), [25, 30, 30, 36, 1])


@pytest.fixture
def factors(graph):
    """Three factors of the placeholders `averaged_rows`, substitutes for other tensors."""
    made = [
        FullyConnectedKroneckerFactor(
            ((tf.zeros([4, 3], tf.float64),),), has_bias, ("/cpu:0",), name
        )
        for has_bias, name in ((False, "a"), (True, "b"), (False, "c"))
    ]
    for factor, device in zip(made, DEVICES, strict=True):
        factor.instantiate_cov_variables(device)
    return made


@pytest.fixture
def averaged_rows(factors):
    return [v1.placeholder(tf.float64, [4, 3]) for _ in factors]


@pytest.fixture
def fold(factors, averaged_rows, session, smallest_large):
    """A function that folds arrays into the averages, and returns those and the refusals."""
    substitutes = {
        factor._tensors[0][0].ref(): placeholder
        for factor, placeholder in zip(factors, averaged_rows, strict=True)
    }
    is_finite = v1.placeholder_with_default(True, [])

    update = tf.group(*fold_batch(factors, DEVICES, substitutes, is_finite, 0.5))

    def run(arrays, has_finite_loss=True):
        feed = dict(zip(averaged_rows, arrays, strict=True))
        session.run(update, {**feed, is_finite: has_finite_loss})
        averages = [factor.value for factor in factors]
        refused = [factor.cov_variables[2] for factor in factors]
        return session.run([averages, refused])

    session.run(v1.global_variables_initializer())
    return run


@pytest.fixture(params=[0, 100, 2**24], ids=["all large", "one large", "none large"])
def smallest_large(request, monkeypatch):
    monkeypatch.setattr(averaging, "LARGE_STATISTIC", request.param)


def moments(arrays, weights=(1.0,)):
    """Returns the average of several batches of arrays for each factor."""
    found = []
    for index in range(3):
        averaged_rows = [np.c_[batch[index], np.ones(4)] for batch in arrays]
        averaged_rows = averaged_rows if index == 1 else [each[:, :3] for each in averaged_rows]
        total = sum(w * x.T @ x / 4 for w, x in zip(weights, averaged_rows, strict=True))
        found.append(total / sum(weights))
    return found


def test_two_batches_are_averaged(fold):
    first, second = [X, X + 1, X + 2], [X**2, -X, X - 5]
    found, refused = fold(first)
    for average, expected in zip(found, moments([first]), strict=True):
        np.testing.assert_allclose(average, expected, rtol=1e-14)
    found, refused = fold(second)
    for average, expected in zip(found, moments([first, second], (0.5, 1.0)), strict=True):
        np.testing.assert_allclose(average, expected, rtol=1e-14)
    assert refused == [0, 0, 0]


def test_one_bad_statistic_is_refused_by_all(fold):
    """Large numbers are accepted; of a bad loss none is."""
    before, refused = fold([1e100 * X, X, X])
    np.testing.assert_allclose(before[0], moments([[1e100 * X] * 3])[0], rtol=1e-14)
    assert refused == [0, 0, 0]
    bad = [[X, X, X] for _ in range(4)]
    for index, value in enumerate((np.nan, -np.inf, 1e200)):
        bad[index][index] = np.where(X[2, 1] == X, value, X)
    for times, arrays in enumerate(bad):
        after, refused = fold(arrays, has_finite_loss=times < 3)
        for average, expected in zip(after, before, strict=True):
            np.testing.assert_array_equal(average, expected)
        assert refused == [times + 1] * 3


@pytest.mark.parametrize("smallest_large", [0], indirect=True)
def test_large_statistics_of_a_device_are_computed_in_turn(fold, graph):
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    assert len(products) == 3
    first, second, third = products
    assert reaches(second, first)
    assert not reaches(third, first)
    assert not reaches(third, second)


def reaches(op, other):
    """Returns whether an operation waits for another one."""
    seen, queue = set(), [op]
    while queue:
        each = queue.pop()
        before = {tensor.op for tensor in each.inputs} | set(each.control_inputs)
        queue += before - seen
        seen |= before
    return other in seen


class HalvedFactor(MatrixFactor):
    """A factor of a program's own, whose statistic is half the second moment."""

    dimension = 3

    def _tower_moment(self, tensors):
        return Moment(tf.matmul(tensors, tensors, transpose_a=True), 4)

    def batch_statistic(self, substitutes=None):
        return super().batch_statistic(substitutes) / 2

    can_predict_finite = True


def test_overridden_statistics_are_folded(graph, session, smallest_large):
    factor = HalvedFactor(((tf.constant(X),),), ("",), "own")
    factor.instantiate_cov_variables()
    updates = fold_batch([factor], [""], {}, tf.constant(True), 0.5)
    session.run(v1.global_variables_initializer())
    session.run(updates)
    np.testing.assert_allclose(session.run(factor.value), X.T @ X / 8, rtol=1e-12)
