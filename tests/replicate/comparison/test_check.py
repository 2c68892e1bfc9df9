"""check_replication: differences between one tower and several, told variable by variable."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.comparison.check import check_replication
from replicate.comparison.differences import Difference
from replicate.errors import NonFiniteError
from replicate.estimator.run_config import RunConfig
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.spec import EstimatorSpec
from replicate.tower.build import current_tower

v1 = tf.compat.v1
Reduction = v1.losses.Reduction

pytestmark = pytest.mark.usefixtures("plain_sessions")

TWO = ["/cpu:0", "/cpu:1"]


def sgd():
    return v1.train.GradientDescentOptimizer(0.5)


def trained(mode, loss, optimizer=sgd, wrap=TowerOptimizer):
    step = v1.train.get_global_step()
    return EstimatorSpec(mode, loss=loss, train_op=wrap(optimizer()).minimize(loss, step))


def powers_of_two():
    """Four rows whose sums and means are exact."""
    return np.array([[1.0], [2.0], [4.0], [8.0]], np.float32), None


def linear(features, mode, params):
    """A loss that is the mean (or sum) of w · x, with w = 4 and dw = 3.75 (or 15)."""
    w = v1.get_variable("w", initializer=4.0)
    return trained(mode, params["reduce"](w * features))


def noisy_rows(rows=8):
    random = np.random.default_rng(3)
    features = random.normal(size=[rows, 4]).astype(np.float32)
    return tf.constant(features), tf.constant(random.integers(0, 3, rows))


def classifier(features, labels, mode, params):
    """Random initial weights; momentum, so that there are slots."""
    weights = v1.get_variable("layer/w", [4, 3])
    logits = features @ weights + v1.get_variable("layer/b", [3], initializer=tf.zeros_initializer)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = params.get("optimizer", lambda: v1.train.MomentumOptimizer(0.1, 0.9))
    return trained(mode, loss, optimizer)


def quietly(model_fn, input_fn=noisy_rows, devices=TWO, **how):
    return check_replication(model_fn, input_fn, devices, **how, output=None)


def names(differences):
    return [difference.name for difference in differences]


@pytest.mark.parametrize(
    ("towers", "seed", "reduction", "resource"), [(2, None, "last", False), (4, 1, "tree", True)]
)
def test_equal_models_differ_by_rounding_only(towers, seed, reduction, resource):
    def model_fn(features, labels, mode):
        with v1.variable_scope("", use_resource=resource):
            return classifier(features, labels, mode, {})

    config = RunConfig(tf_random_seed=seed)
    devices = [f"/cpu:{k}" for k in range(towers)]
    check = quietly(model_fn, devices=devices, config=config, reduction=reduction)
    assert check.ok()
    assert check.worst.relative <= 2e-6
    assert names(check.gradients) == ["gradient of layer/w", "gradient of layer/b"]
    assert sorted(names(check.variables)) == [
        "global_step",
        "layer/b",
        "layer/b/Momentum",
        "layer/w",
        "layer/w/Momentum",
    ]
    assert len(check.plan.towers) == towers


def test_report_of_a_sum_that_is_declared_a_mean():
    printed = []
    check = check_replication(
        linear, powers_of_two, TWO, {"reduce": tf.reduce_sum}, output=printed.append
    )
    assert printed == [str(check)]
    assert (
        printed[0]
        == """\
2 towers: /device:CPU:0 /device:CPU:1   variables on /device:CPU:0

variable  shape   dtype    parameters  bytes  device
w         scalar  float32           1      4  /device:CPU:0
1 variable, 1 parameters, 0.00 MiB

One training step on the same batch, 2 towers against 1 tower:
               absolute  relative
loss            3.0e+01   5.0e-01
gradient of w   7.5e+00   5.0e-01
global_step     0.0e+00   0.0e+00
w               3.8e+00   1.1e+00
Largest relative difference: 1.1e+00, w."""
    )
    assert check.loss == Difference("loss", 30.0, 0.5)
    assert check.gradients == (Difference("gradient of w", 7.5, 0.5),)
    assert check.worst == Difference("w", 3.75, 3.75 / 3.5)
    assert not check.ok(tolerance=1.0)
    assert check.ok(tolerance=1.1)


def test_a_sum_that_is_declared_is_exact_and_printed_by_default(capsys):
    settings = {"params": {"reduce": tf.reduce_sum}, "loss_reduction": Reduction.SUM}
    check = check_replication(linear, powers_of_two, TWO, **settings)
    assert check.worst.absolute == 0.0
    assert capsys.readouterr().out == f"{check}\n"


def test_embedding_gradients_are_compared_as_dense():
    def model_fn(features, labels, mode):
        table = v1.get_variable("table", initializer=tf.reshape(tf.range(10.0), [5, 2]))
        return trained(mode, tf.reduce_mean(tf.square(tf.gather(table, features))))

    def ids():
        return np.array([[1, 1], [3, 0], [1, 3], [1, 1]], np.int32), np.zeros(4)

    check = quietly(model_fn, ids, loss_reduction=Reduction.SUM)
    assert names(check.gradients) == ["gradient of table"]
    assert check.gradients[0].absolute == pytest.approx(5 * 2 * 3.0 / 16)


def test_sparse_and_ragged_features():
    def input_fn():
        ragged = tf.ragged.constant([[1.0, 2.0], [], [3.0], [4.0, 5.0, 6.0]])
        return {"ragged": ragged, "sparse": ragged.to_sparse()}, None

    def model_fn(features, mode):
        sums = v1.sparse_reduce_sum(features["sparse"], axis=1)
        sums += tf.reduce_sum(features["ragged"], axis=1)
        w = v1.get_variable("w", initializer=2.0)
        return trained(mode, tf.reduce_mean(tf.square(w * sums - 1.0)))

    sums = 2 * np.array([3.0, 0.0, 3.0, 15.0])
    gradient = np.mean(2 * sums * (2 * sums - 1))
    check = quietly(model_fn, input_fn, loss_reduction=Reduction.SUM)
    assert check.variables[-1].name == "w"
    assert check.gradients[0].absolute == pytest.approx(gradient, rel=1e-6)


@dataclasses.dataclass(frozen=True)
class Rows:
    x: tf.Tensor
    y: np.ndarray
    whole: np.ndarray


def test_records_arrays_and_none_pass_unharmed():
    def input_fn():
        ones = np.ones([4, 1], np.float32)
        return Rows(tf.reshape(tf.range(4.0), [4, 1]), ones, whole=ones[:3]), None

    def model_fn(features, labels, mode):
        assert isinstance(features, Rows)
        assert labels is None
        assert tuple(features.whole.shape) == (3, 1)
        w = v1.get_variable("w", initializer=2.0)
        return trained(mode, tf.reduce_mean(tf.square(w * features.x - features.y)))

    assert quietly(model_fn, input_fn, unsplit=["whole"]).ok()


@pytest.mark.parametrize("rows_known", [True, pytest.param(False, marks=pytest.mark.broad)])
def test_one_batch_of_a_shuffled_dataset_feeds_both(rows_known):
    calls = []

    def input_fn(mode, params):
        calls.append((mode, params))
        features, labels = noisy_rows(64)
        data = tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(64)
        return data.batch(8, drop_remainder=rows_known)

    def model_fn(features, labels, mode, params):
        rows = 8 // current_tower().count if rows_known else None
        assert features.shape.as_list() == [rows, 4]
        return classifier(features, labels, mode, params)

    assert quietly(model_fn, input_fn).ok()
    assert calls == [("train", {})]


def test_input_from_queues():
    def input_fn():
        features, labels = noisy_rows()
        return tuple(v1.train.batch([features, labels], 8, enqueue_many=True))

    assert quietly(classifier, input_fn).ok()


def test_plain_optimizer_on_one_tower_has_no_gradients_to_compare():
    check = quietly(plain_optimizer, powers_of_two, TWO[:1])
    assert check.ok(0.0)
    assert check.gradients == ()
    assert "Gradients: not compared, since no TowerOptimizer wraps the optimizer." in str(check)


def test_variables_and_gradients_of_one_model_only_are_reported():
    def model_fn(features, mode):
        w = v1.get_variable("w", initializer=4.0)
        loss = tf.reduce_mean(w * features)
        if current_tower().count > 1:
            loss += v1.get_variable("extra", initializer=0.0)
        else:
            v1.get_variable("frozen", initializer=0.0, trainable=False)
        return trained(mode, loss)

    check = quietly(model_fn, powers_of_two)
    assert check.worst.absolute == 0.0
    assert not check.ok()
    assert check.unmatched == (
        "gradient of extra (only on 2 towers)",
        "frozen (only on 1 tower)",
        "extra (only on 2 towers)",
    )
    assert "\nNot compared: frozen (only on 1 tower).\n" in str(check)


def test_two_optimizers_of_one_variable():
    def model_fn(features, mode):
        w = v1.get_variable("w", initializer=4.0)
        first = trained(mode, tf.reduce_mean(w * features))
        second = trained(mode, tf.reduce_mean(2 * w * features))
        return first._replace(train_op=tf.group(first.train_op, second.train_op))

    check = quietly(model_fn, powers_of_two)
    assert names(check.gradients) == ["gradient of w", "gradient of w (2)"]
    assert check.ok(0.0)


def test_batches_are_split_and_variables_are_placed_as_in_training():
    how = {"uneven": "weighted", "variables": "round_robin"}
    check = quietly(classifier, lambda: noisy_rows(7), **how)
    assert check.ok()
    assert check.plan == device_plan(TWO, "round_robin")
    assert "/device:CPU:1" in check.table


def test_statistics_of_one_tower_are_told_from_those_of_all():
    def model_fn(features, mode):
        w = v1.get_variable("w", initializer=4.0)
        average = v1.get_variable("average", initializer=0.0, trainable=False)
        update = v1.assign_sub(average, (average - tf.reduce_mean(features)) * 0.5)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        return trained(mode, tf.reduce_mean(w * features))

    def statistics(update_ops):
        check = quietly(model_fn, powers_of_two, update_ops=update_ops)
        assert check.unmatched == ()
        return {difference.name: difference.absolute for difference in check.variables}["average"]

    assert statistics("mean") == 0.0
    assert statistics("first") == 0.5 * (3.75 - 1.5)


def test_variables_start_from_what_the_scaffold_set():
    def model_fn(features, mode):
        w = v1.get_variable("w", initializer=0.0)
        scaffold = v1.train.Scaffold(init_fn=lambda _, session: w.load(8.0, session))
        return trained(mode, tf.reduce_mean(tf.square(w) * features))._replace(scaffold=scaffold)

    check = quietly(model_fn, powers_of_two, loss_reduction=Reduction.SUM)
    assert check.loss == Difference("loss", 8.0**2 * 3.75, 1.0)


def test_difference_is_relative_to_the_largest_of_its_kind():
    def model_fn(features, mode):
        small, large = (v1.get_variable(n, initializer=x) for n, x in (("s", 1.0), ("l", 8.0)))
        error = tf.cast(current_tower().count - 1, tf.float32)
        frozen = v1.get_variable("f", initializer=2.0, trainable=False)
        spec = trained(mode, tf.reduce_mean(0.0 * (small + large) * features))
        with tf.control_dependencies([spec.train_op]):
            changes = [v1.assign_add(small, error / 2), v1.assign_add(frozen, error / 2)]
        return spec._replace(train_op=tf.group(changes if current_tower().is_last else []))

    check = quietly(model_fn, powers_of_two)
    relative = {difference.name: difference.relative for difference in check.variables}
    assert relative == {"s": 0.5 / 8.0, "l": 0.0, "f": 0.5 / 2.0, "global_step": 0.0}


def no_train_op(features, mode):
    return EstimatorSpec(mode, loss=tf.reduce_mean(features))


def of_evaluation(features, mode):
    return EstimatorSpec("eval", loss=tf.reduce_mean(features))


def plain_optimizer(features, mode):
    w = v1.get_variable("w", initializer=4.0)
    return trained(mode, tf.reduce_mean(w * features), wrap=lambda optimizer: optimizer)


def weights_per_row(features, mode):
    w = v1.get_variable("w", [features.shape[0], 1])
    return trained(mode, tf.reduce_mean(w * features))


def infinite(features, mode):
    w = v1.get_variable("w", initializer=0.0)
    return trained(mode, tf.reduce_mean(features / w))


@pytest.mark.parametrize(
    ("model_fn", "error", "match"),
    [
        (3, TypeError, "model_fn must be a function"),
        (lambda features: None, TypeError, "must return an EstimatorSpec .* got None"),
        (no_train_op, ValueError, "train_op is None"),
        (of_evaluation, ValueError, "has no train_op"),
        (plain_optimizer, ValueError, "Please wrap optimizers with TowerOptimizer"),
        (weights_per_row, ValueError, r"variable 'w' has shape \(2, 1\), and \(4, 1\) on one tow"),
        (infinite, NonFiniteError, "gradient of w is NaN or infinite"),
    ],
)
def test_models_that_cannot_be_checked(model_fn, error, match):
    with pytest.raises(error, match=match):
        quietly(model_fn, powers_of_two)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"input_fn": 3}, TypeError, "input_fn must be a function"),
        ({"input_fn": lambda: None}, ValueError, "input_fn returned None"),
        ({"input_fn": lambda: tf.data.Dataset.range(1).batch(4, True)}, ValueError, "no batch"),
        ({"reduction": "ring"}, ValueError, r"reduction must be one of .*; got 'ring'"),
    ],
)
def test_arguments_that_cannot_be_used(arguments, error, match):
    with pytest.raises(error, match=match):
        quietly(plain_optimizer, **arguments)


def test_check_leaves_no_files_or_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = {"optimizer": sgd}
    graph = v1.get_default_graph()
    operations = len(graph.get_operations())
    quietly(classifier, params=params)
    assert v1.get_default_graph() is graph
    assert len(graph.get_operations()) == operations
    assert list(tmp_path.iterdir()) == []
    assert params == {"optimizer": sgd}
