"""Numbers of factors, blocks and counters in summaries."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.config import CurvatureConfig
from kfac.fisher_factors import (
    ConvInputSUAKroneckerFactor,
    Damping,
    FullyConnectedKroneckerFactor,
)
from kfac.linalg.damped_functions import Cholesky
from kfac.patches.extraction import ConvGeometry
from kfac.state import make_counter
from kfac.update import health_report
from kfac.update.health_report import numbers_of, total_of

v1 = tf.compat.v1


def summaries(session, feed):
    summary = v1.Summary.FromString(session.run(v1.summary.merge_all(), feed))
    return {value.tag: value.simple_value for value in summary.value}


def test_factors_and_counters(build_network, session, batch):
    network = build_network(dtype="float64")
    estimator = kfac.estimator.FisherEstimator(
        None, 0.9, 0.3, network.collection, estimation_mode="empirical"
    )
    with v1.control_dependencies([estimator.make_cov_update_op()]):
        update = estimator.make_inv_update_op()
    scalars = {"rho": tf.constant(0.5), "damping": lambda: 0.25}
    health_report.summarize(scalars, estimator.blocks, estimator.factors, estimator.times)
    mean = health_report.mean_curvature(estimator.blocks)
    feed = network.share(batch)
    session.run(v1.global_variables_initializer())
    assert summaries(session, feed)["kfac/monitor/layers_without_inverse"] == 2
    session.run(update, feed)
    found = summaries(session, feed)
    assert found.pop("kfac/monitor/rho") == 0.5
    assert found.pop("kfac/monitor/damping") == 0.25
    assert found.pop("kfac/monitor/layers_without_inverse") == 0
    shown = found.pop("kfac/monitor/mean_curvature")
    for name in ("refused_statistics", "retried_inverses", "eigen_inverses", "kept_inverses"):
        assert found.pop(f"kfac/monitor/{name}") == 0
    for phase in ("covariance", "inverse"):
        assert 0 < found.pop(f"kfac/monitor/{phase}_seconds") < 60
    blocks = []
    for factor in estimator.factors:
        matrix, inverse = session.run([factor.cov, factor.inv_variables[0]])
        np.testing.assert_allclose(
            found.pop(f"kfac/monitor/{factor.name}/trace"), np.trace(matrix), rtol=1e-6
        )
        condition = found.pop(f"kfac/monitor/{factor.name}/inverse_condition")
        norms = np.linalg.norm(matrix) * np.linalg.norm(inverse)
        np.testing.assert_allclose(condition, norms, rtol=1e-5)
        values = np.linalg.eigvalsh(matrix)
        least = values[-1] * np.linalg.eigvalsh(inverse)[-1]
        assert least <= condition * (1 + 1e-5) <= len(matrix) * least * (1 + 1e-4)
        blocks.append(matrix)
    assert found == {}
    traces = [np.trace(matrix) for matrix in blocks]
    total = 16 * traces[0] * traces[1] + traces[2] * traces[3]
    np.testing.assert_allclose(session.run(mean), total / (19 * 4 + 65 * 3), rtol=1e-9)
    np.testing.assert_allclose(shown, total / (19 * 4 + 65 * 3), rtol=1e-6)


def test_blocks_with_one_factor_and_no_inverse(graph, session):
    w, x = v1.get_variable("w", initializer=tf.ones([2, 3])), tf.eye(2)
    logits = tf.matmul(x, w)
    collection = kfac.LayerCollection()
    collection.register_fully_connected(w, x, logits, approx="diagonal")
    collection.register_softmax_cross_entropy_loss(logits, targets=tf.constant([0, 1]))
    estimator = kfac.estimator.FisherEstimator(None, 0.9, 0.3, collection, estimation_mode="exact")
    update = estimator.make_cov_update_op()
    health_report.summarize({}, estimator.blocks, estimator.factors, estimator.times)
    mean = health_report.mean_curvature(estimator.blocks)
    session.run(v1.global_variables_initializer())
    session.run(update)
    found = summaries(session, {})
    # Each example has trace(diag p − p pᵀ) = 2/3 and one input that is not zero.
    np.testing.assert_allclose(found["kfac/monitor/w/trace"], 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(session.run(mean), 2 / 3 / 6, rtol=1e-6)
    assert not [name for name in found if "condition" in name]


X = np.random.RandomState(0).randn(8, 3)
DAMPING = Damping("fc/input", lambda: {"fc/input": tf.constant(0.2, tf.float64)})


def half_square(matrix):
    return np.sum(np.square(matrix.astype(np.float64))) / 2


@pytest.mark.parametrize(("device", "dtype"), [("", "float32"), ("/device:CPU:1", "float16")])
def test_numbers_of_a_matrix(graph, session, update_factors, device, dtype):
    """Its inverses may be elsewhere, and of another dtype."""
    config = CurvatureConfig(factor_dtype="float64", inverse_dtype=dtype)
    factor = FullyConnectedKroneckerFactor(
        ((tf.constant(X),),), False, ("",), name="fc/input", config=config
    )
    factor.register_inverse(DAMPING)
    factor.register(Cholesky(), DAMPING)
    factor.instantiate_inv_variables(device)
    update_factors(factor)
    numbers = numbers_of(factor)
    found, covariance, kept = session.run([numbers, factor.cov, factor.get_inv_vars()])
    np.testing.assert_allclose(found.trace, np.trace(covariance), rtol=1e-12)
    assert found.weight == 1
    np.testing.assert_allclose(found.norm, half_square(covariance), rtol=1e-6)
    for slot, matrix in zip(found.slots, kept, strict=True):
        np.testing.assert_allclose(slot.norm, half_square(matrix), rtol=1e-3)
        np.testing.assert_array_equal(slot.rare_paths, [0, 0, 0])
    calls = [op.name for op in graph.get_operations() if "numbers" in op.name]
    apart = ["average_numbers", "slot_numbers", "slot_numbers_1"]
    assert calls == (apart if device else ["numbers"])


def test_numbers_of_a_factor_whose_trace_has_another_form(graph, session, update_factors):
    images = np.random.RandomState(0).randn(5, 4, 4, 3)
    geometry = ConvGeometry((2, 2), (1, 1), "SAME")
    factor = ConvInputSUAKroneckerFactor(
        ((tf.constant(images),),), geometry, True, ("",), name="fc/input"
    )
    factor.register_inverse(DAMPING)
    update_factors(factor)
    found, matrix, kept = session.run([numbers_of(factor), factor.cov, factor.get_inv_vars()])
    np.testing.assert_allclose(found.trace, np.trace(matrix), rtol=1e-12)
    np.testing.assert_allclose(found.norm, half_square(matrix), rtol=1e-6)
    np.testing.assert_allclose(found.slots[0].norm, half_square(kept[0]), rtol=1e-6)


def test_rare_paths_are_counted(graph, session):
    factor = FullyConnectedKroneckerFactor(((tf.constant(X),),), False, ("",), name="fc/input")
    factor.register_inverse(DAMPING)
    factor.instantiate_cov_variables()
    factor.instantiate_inv_variables()
    update = factor.make_inverse_update_ops()
    (slot,) = numbers_of(factor).slots
    session.run(v1.global_variables_initializer())
    for _ in range(2):
        session.run(update)  # The average is NaN before the first batch.
    np.testing.assert_array_equal(session.run(slot.rare_paths), [0, 0, 2])


@pytest.mark.parametrize("count", [1, 37])
def test_total_of_counters_on_several_devices(graph, session, count):
    counters = [make_counter(f"c{i}", f"/device:CPU:{i % 2}") for i in range(count)]
    session.run(v1.global_variables_initializer())
    session.run([v1.assign(counter, i + 1) for i, counter in enumerate(counters)])
    before = len(graph.get_operations())
    total = total_of(counters)
    assert len(graph.get_operations()) - before <= 8
    assert session.run(total) == count * (count + 1) // 2
