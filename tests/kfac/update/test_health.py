import numpy as np
import tensorflow as tf

import kfac
from kfac.update import health

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
    health.summarize(scalars, estimator.blocks, estimator.factors, estimator.times)
    mean = health.mean_curvature(estimator.blocks)
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
    health.summarize({}, estimator.blocks, estimator.factors, estimator.times)
    mean = health.mean_curvature(estimator.blocks)
    session.run(v1.global_variables_initializer())
    session.run(update)
    found = summaries(session, {})
    # Each example has trace(diag p − p pᵀ) = 2/3 and one input that is not zero.
    np.testing.assert_allclose(found["kfac/monitor/w/trace"], 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(session.run(mean), 2 / 3 / 6, rtol=1e-6)
    assert not [name for name in found if "condition" in name]
