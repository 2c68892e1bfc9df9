"""Workers without parameter servers: n workers with N towers train as one tower does.

Each worker is a thread with a server, a graph and a session of its own.
"""

import importlib.metadata
import itertools
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from kfac.update.delayed_inverses import DelayedInverses
from replicate.all_reduce.step import current_step
from replicate.estimator import worker_start
from replicate.estimator.cluster.board import Board
from replicate.estimator.cluster_config import ClusterConfig
from replicate.launch.plan import free_ports

v1 = tf.compat.v1

ROWS, STEPS, SECS = 12, 8, 60
RANDOM = np.random.RandomState(0)
X = RANDOM.randn(ROWS, 5).astype(np.float32)
IDS = RANDOM.randint(0, 6, ROWS).astype(np.int64)
Y = (X @ np.arange(1, 6) + 0.1 * IDS).astype(np.float32)[:, None]
TOWERS = ["/cpu:0", "/cpu:1"]


def cluster(workers):
    """The roles of the workers of a cluster, the chief first."""
    addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(workers))
    jobs = {"chief": addresses[:1], "worker": addresses[1:]}
    return [ClusterConfig(jobs, "chief", 0)] + [
        ClusterConfig(jobs, "worker", index) for index in range(workers - 1)
    ]


def options():
    found = v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
    found.graph_options.rewrite_options.disable_meta_optimizer = True
    return found


def config(role=None, settings=None, **others):
    reduces = {} if role is None else {"cluster": role}
    return replicate.RunConfig(
        progress="off",
        save_checkpoints_steps=1000,
        session_config=options(),
        train_distribute=settings or replicate.AllReduce(timeout_secs=10, check_every=3),
        **reduces,
        **others,
    )


def in_threads(functions):
    """Calls functions side by side. Returns their results, or the errors that they raise."""
    results = [None] * len(functions)

    def call(place):
        try:
            results[place] = functions[place]()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECS)
    assert not any(thread.is_alive() for thread in threads)
    return results


class Variables(v1.train.SessionRunHook):
    """Keeps all variables as they are at the end."""

    def begin(self):
        self._variables = {each.op.name: each.read_value() for each in v1.global_variables()}

    def end(self, session):
        self.values = session.run(self._variables)


def train(model_fn, input_fn, folder, run_config, max_steps=STEPS, devices=("/cpu:0",), **settings):
    """Trains and returns this worker's variables."""
    kept = Variables()
    model_fn = replicate.replicate_model_fn(model_fn, devices=devices, **settings)
    estimator = replicate.Estimator(model_fn, str(folder), run_config)
    estimator.train(input_fn, max_steps=max_steps, hooks=[kept])
    return kept.values


def rows(start, stop):
    return {"x": X[start:stop], "ids": IDS[start:stop]}, Y[start:stop]


def parts(bounds, repeat=True):
    """An input_fn for each worker, with rows from one bound to the next."""

    def make(start, stop):
        def input_fn():
            dataset = tf.data.Dataset.from_tensors(rows(start, stop))
            return dataset.repeat() if repeat else dataset

        return input_fn

    return [make(*pair) for pair in itertools.pairwise(bounds)]


def model(optimizer=lambda: v1.train.MomentumOptimizer(0.002, 0.9), **settings):
    """A network with an embedding, whose gradient is sparse, and a batch normalization."""

    def model_fn(features, labels, mode):
        table = v1.get_variable("table", [6, 3], initializer=v1.constant_initializer(0.2))
        kernel = v1.get_variable(
            "kernel", [8, 4], initializer=v1.constant_initializer(np.eye(8, 4) + 0.1)
        )
        out = v1.get_variable("out", [4, 1], initializer=v1.constant_initializer(0.3))
        inputs = tf.concat([features["x"], tf.nn.embedding_lookup(table, features["ids"])], axis=1)
        hidden = tf.tanh(tf.matmul(inputs, kernel))
        average = v1.get_variable(
            "average", [4], initializer=v1.zeros_initializer(), trainable=False
        )
        fold = v1.assign_sub(average, 0.1 * (average - tf.reduce_mean(hidden, axis=0)))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, fold)
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out) - labels))
        wrapped = replicate.TowerOptimizer(optimizer, **settings)
        with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train_op = wrapped.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def assert_same(found, others):
    """All variables are equal to the bit."""
    for other in others:
        assert other.keys() == found.keys()
        for name, value in found.items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)


def assert_close(found, expected, tolerance=1e-6):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        atol = tolerance * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)


def train_workers(model_fn, inputs, folder, settings=None, **others):
    """Trains one worker on each input. Returns their variables, or the errors that they raise."""
    roles = cluster(len(inputs))
    return in_threads(
        [
            lambda role=role, input_fn=input_fn: train(
                model_fn, input_fn, folder, config(role, settings), **others
            )
            for role, input_fn in zip(roles, inputs, strict=True)
        ]
    )


def assert_trained_alike(found):
    for each in found:
        if isinstance(each, BaseException):
            raise each
    assert_same(found[0], found[1:])


@pytest.mark.parametrize("pack_bytes", [64, 8 << 20])
def test_workers_with_towers_equal_one_tower(tmp_path, pack_bytes):
    model_fn = model()
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config())
    settings = replicate.AllReduce(timeout_secs=10, check_every=3, pack_bytes=pack_bytes)
    found = train_workers(
        model_fn,
        parts([0, 8, ROWS]),
        tmp_path / "many",
        settings,
        devices=TOWERS,
        uneven="weighted",
    )
    assert_trained_alike(found)
    assert_close(found[0], expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"clip_norm": 0.5, "accumulate_steps": 2},
        {"loss_scale": replicate.DynamicLossScale(initial=3e38, growth_steps=3)},
        {"skip_nonfinite": 2},
        {
            "loss_scale": replicate.DynamicLossScale(initial=3e38, growth_steps=3),
            "accumulate_steps": 2,
        },
        {"skip_nonfinite": 2, "accumulate_steps": 3},
    ],
    ids=[
        "clipping and accumulation",
        "loss scale",
        "skipping",
        "loss scale and accumulation",
        "skipping and accumulation",
    ],
)
def test_the_stages_of_an_update_decide_alike_on_all_workers(tmp_path, settings):
    """The loss scale overflows at first; with skip_nonfinite, one worker meets a NaN."""
    bounds = [0, 8, ROWS]
    model_fn = model(lambda: v1.train.AdamOptimizer(0.01), **settings)

    def input_fn(start, stop):
        features, labels = rows(start, stop)
        batches = tf.data.Dataset.from_tensors((features, labels)).repeat()
        if "skip_nonfinite" not in settings:
            return batches
        bad = np.where(np.arange(start, stop)[:, None] == 9, np.nan, labels).astype(np.float32)
        spoilt = tf.data.Dataset.from_tensors((features, bad))
        return batches.take(2).concatenate(spoilt).concatenate(batches)

    inputs = [lambda pair=pair: input_fn(*pair) for pair in itertools.pairwise(bounds)]
    expected = train(model_fn, lambda: input_fn(0, ROWS), tmp_path / "one", config())
    found = train_workers(model_fn, inputs, tmp_path / "many")
    assert_trained_alike(found)
    if "accumulate_steps" in settings:
        kept = [name for name in expected if name.startswith("gradient_accumulation/")]
        assert len(kept) == 4, "a count and three totals, which workers keep for themselves"
        for name in kept:
            del expected[name]
    assert_close(found[0], expected)
    counters = [value for name, value in found[0].items() if "skipped_steps" in name]
    assert counters == ([] if "clip_norm" in settings else [counters[0]])
    assert all(counters)


def test_losses_that_are_sums_are_summed_over_workers(tmp_path):
    """The gradients of the workers add up without a division."""

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = tf.reduce_sum(tf.square(tf.matmul(features, kernel) - 1.0))
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.001))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def without_labels(start, stop):
        return lambda: tf.data.Dataset.from_tensors(X[start:stop]).repeat()

    expected = train(model_fn, without_labels(0, ROWS), tmp_path / "one", config())
    found = train_workers(
        model_fn,
        [without_labels(0, 7), without_labels(7, ROWS)],
        tmp_path / "many",
        loss_reduction=v1.losses.Reduction.SUM,
    )
    assert_trained_alike(found)
    assert_close(found[0], expected)


def test_a_worker_whose_input_ends_waits_for_the_others_without_weight(tmp_path):
    """Two batches on one worker and four on the other: all workers make four steps."""
    first = [rows(0, 4), rows(4, 6)]
    second = [rows(6, 9), rows(9, 11), rows(0, 3), rows(2, 6)]

    def batches(listed):
        datasets = [tf.data.Dataset.from_tensors(each) for each in listed]
        joined = datasets[0]
        for dataset in datasets[1:]:
            joined = joined.concatenate(dataset)
        return joined

    def both():
        together = [
            tf.nest.map_structure(lambda *leaves: np.concatenate(leaves), *pair)
            for pair in zip(first, second, strict=False)
        ]
        return batches([*together, *second[len(first) :]])

    model_fn = model()
    expected = train(model_fn, both, tmp_path / "one", config(), max_steps=None)
    inputs = [lambda: batches(first), lambda: batches(second)]
    found = train_workers(model_fn, inputs, tmp_path / "many", max_steps=None)
    assert_trained_alike(found)
    assert found[0]["global_step"] == len(second)
    assert_close(found[0], expected)


@pytest.mark.parametrize("accumulate_steps", [1, 2])
def test_a_nan_on_one_worker_ends_all_workers_and_names_it(tmp_path, accumulate_steps):
    found = train_workers(model(accumulate_steps=accumulate_steps), with_a_bad_batch(3), tmp_path)
    assert [type(each) for each in found] == [replicate.NonFiniteError] * 2
    assert str(found[0]) == str(found[1])
    assert "is NaN or infinite, because of worker 0 at '127.0.0.1:" in str(found[0])
    assert "chief" not in str(found[0])


def with_a_bad_batch(count):
    """The inputs of two workers: after some batches the labels of the second one are NaN."""

    def input_fn(is_bad):
        features, labels = rows(0, 4)
        good = tf.data.Dataset.from_tensors((features, labels))
        bad = tf.data.Dataset.from_tensors((features, labels * np.float32("nan")))
        return (
            good.repeat(count - 1).concatenate(bad if is_bad else good).concatenate(good.repeat())
        )

    return [lambda: input_fn(is_bad=False), lambda: input_fn(is_bad=True)]


def test_a_skipped_step_names_the_worker(tmp_path, own_log):
    found = train_workers(model(skip_nonfinite=1), with_a_bad_batch(3), tmp_path)
    assert_trained_alike(found)
    told = [each.getMessage() for each in own_log.records if "Skipped a batch" in each.getMessage()]
    assert len(told) == 2
    assert "step 2: On worker 0 at '127.0.0.1:" in told[0]
    assert "', the loss " in told[0]


def test_a_loss_that_is_not_finite_names_the_worker(tmp_path):
    """Its gradients are finite: the loss has a summand without variables."""

    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = tf.reduce_mean(tf.matmul(features["x"], kernel)) + tf.reduce_mean(labels)
        optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.01))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    found = train_workers(model_fn, with_a_bad_batch(2), tmp_path)
    for each in found:
        assert isinstance(each, replicate.NonFiniteError)
        assert "is nan, because of worker 0 at '127.0.0.1:" in str(each)


@pytest.mark.parametrize(("accumulate_steps", "expected"), [(1, [3]), (3, [3, 3, 4])])
def test_gradients_are_sent_once_in_an_update(tmp_path, accumulate_steps, expected):
    """Collectives of each step by its trace: reports and loss in all; then gradients or agreement.

    In the step of the update of accumulated gradients there are both.
    """
    received = []

    class Count(v1.train.SessionRunHook):
        def before_run(self, run_context):
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            return v1.train.SessionRunArgs(v1.train.get_global_step(), options=options)

        def after_run(self, run_context, run_values):
            devices = run_values.run_metadata.step_stats.dev_stats
            nodes = [node.node_name for device in devices for node in device.node_stats]
            received.append(nodes.count("RecvBuf"))

    def work(role, input_fn):
        made = replicate.replicate_model_fn(dense_model(accumulate_steps), devices=("/cpu:0",))
        estimator = replicate.Estimator(made, str(tmp_path), config(role))
        hooks = [Count()] if role.task_type == "chief" else []
        estimator.train(input_fn, max_steps=2, hooks=hooks)

    pairs = zip(cluster(2), parts([0, 6, ROWS]), strict=True)
    assert in_threads([lambda pair=pair: work(*pair) for pair in pairs]) == [None, None]
    assert received == expected * 2


def dense_model(accumulate_steps):
    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        loss = v1.losses.mean_squared_error(labels, tf.matmul(features["x"], kernel))
        optimizer = replicate.TowerOptimizer(
            v1.train.GradientDescentOptimizer(0.01), accumulate_steps=accumulate_steps
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def test_a_worker_that_differs_is_named_at_the_start(tmp_path):
    roles, inputs = cluster(2), parts([0, 6, ROWS])
    models = [model(), model(lambda: v1.train.AdamOptimizer(0.01))]
    found = in_threads(
        [
            lambda each=each: train(each[0], each[1], tmp_path, config(each[2]))
            for each in zip(models, inputs, roles, strict=True)
        ]
    )
    for each in found:
        assert isinstance(each, replicate.WorkersDifferError)
        assert "worker 0 at " in str(each)
        assert "about to train something else than chief 0 at" in str(each)
        assert each.code == 2


@pytest.mark.parametrize("part", ["replicate", "TensorFlow"])
def test_another_version_on_a_worker_is_the_one_error_at_the_start(tmp_path, monkeypatch, part):
    """It comes before the other settings, variables and collectives that such a version has."""
    facts_of = worker_start._graph_facts

    def facts(group):
        found = facts_of(group)
        if group.is_chief:
            return found
        return {**found, f"version of {part}": "0.1.2", "collective": ["another"], "variable": []}

    monkeypatch.setattr(worker_start, "_graph_facts", facts)
    found = train_workers(model(), parts([0, 6, ROWS]), tmp_path)
    real = {"replicate": importlib.metadata.version("replicate-model-fn")}.get(part, tf.__version__)
    for each in found:
        assert isinstance(each, replicate.WorkersDifferError)
        assert each.code == 2
        assert re.fullmatch(
            r"worker 0 at '\S+' is about to train something else than chief 0 at '\S+': its "
            rf"version of {part} is '0\.1\.2', and that of the chief '{re.escape(real)}'\. Start "
            "the same program with the same arguments and the same versions on all workers\\.",
            str(each),
        )


def test_absent_workers_are_named(tmp_path):
    roles = cluster(3)
    settings = {"session_creation_timeout_secs": 1}
    with pytest.raises(replicate.ClusterError, match=r"^chief 0 has waited 1 s.*for worker 0 at "):
        train(model(), parts([0, ROWS])[0], tmp_path, config(roles[0], **settings))
    with pytest.raises(replicate.ClusterError, match=r"^worker 1 has waited .*for chief 0 at '127"):
        train(model(), parts([0, ROWS])[0], tmp_path, config(roles[2], **settings))


@pytest.mark.parametrize("is_late", [False, True])
def test_a_worker_too_many_is_refused(tmp_path, is_late, monkeypatch):
    """At the start all are, because nobody can tell which cluster is the right one."""
    exchange, has_come = Board.exchange, threading.Event()

    def in_order(board, key="", note="", **limits):
        """Lets the last worker that belongs to the cluster come after the one too many."""
        if key.endswith("arrived/1") and not is_late:
            assert has_come.wait(SECS)
        found = exchange(board, key, note, **limits)
        if key.endswith("arrived/2"):
            has_come.set()
        return found

    monkeypatch.setattr(Board, "exchange", in_order)
    roles, inputs = cluster(2), parts([0, 6, ROWS])
    address = f"127.0.0.1:{free_ports(1)[0]}"
    jobs = {**roles[0].jobs, "worker": (*roles[0].jobs["worker"], address)}
    surplus = ClusterConfig(jobs, "worker", 1)
    has_begun, is_refused = threading.Event(), threading.Event()

    class Wait(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            has_begun.set()
            assert is_refused.wait(SECS)

    def work(role, input_fn, hooks):
        estimator = replicate.Estimator(model(), str(tmp_path), config(role))
        estimator.train(input_fn, max_steps=2, hooks=hooks)

    def be_surplus():
        if is_late:
            assert has_begun.wait(SECS)
        try:
            work(surplus, inputs[0], [])
        finally:
            is_refused.set()

    hooks = [Wait()] if is_late else []
    trainers = [lambda pair=pair: work(*pair, hooks) for pair in zip(roles, inputs, strict=True)]
    *others, found = in_threads([*trainers, be_surplus])
    assert isinstance(found, replicate.WorkersDifferError)
    if is_late:
        assert others == [None, None]
        assert "is one worker too many: the chief trains with 2 workers already" in str(found)
    else:
        assert [type(each) for each in others] == [replicate.WorkersDifferError] * 2
        assert "has another cluster in TF_CONFIG than chief 0" in str(found)


def test_a_worker_whose_variables_differ_is_named(tmp_path):
    class Spoil(v1.train.SessionRunHook):
        def begin(self):
            out = next(each for each in v1.global_variables() if each.op.name == "out")
            self._change = v1.assign_add(out, tf.ones([4, 1]))

        def after_run(self, run_context, run_values):
            if self.is_active:
                run_context.session.run(self._change)

    def spoilt(role, input_fn):
        hook = Spoil()
        hook.is_active = role.task_type == "worker"
        estimator = replicate.Estimator(model(), str(tmp_path), config(role))
        estimator.train(input_fn, max_steps=STEPS, hooks=[hook])

    roles, inputs = cluster(2), parts([0, 6, ROWS])
    found = in_threads(
        [lambda pair=pair: spoilt(*pair) for pair in zip(roles, inputs, strict=True)]
    )
    for each in found:
        assert isinstance(each, replicate.WorkersDifferError)
        assert str(each).startswith("At step 3 workers have other variables than chief 0 at ")
        assert "worker 0 at " in str(each)
        assert "'out'" in str(each)


def test_a_hook_of_one_worker_ends_all_workers_after_the_next_step(tmp_path):
    class Stop(v1.train.SessionRunHook):
        calls = 0

        def after_run(self, run_context, run_values):
            self.calls += 1
            if self.calls == 3:
                run_context.request_stop()

    def stopping(role, input_fn):
        kept = Variables()
        hooks = [kept, *([Stop()] if role.task_type == "worker" else [])]
        estimator = replicate.Estimator(model(), str(tmp_path), config(role))
        estimator.train(input_fn, hooks=hooks)
        return kept.values

    roles, inputs = cluster(2), parts([0, 6, ROWS])
    found = in_threads(
        [lambda pair=pair: stopping(*pair) for pair in zip(roles, inputs, strict=True)]
    )
    assert_trained_alike(found)
    assert found[0]["global_step"] == 4


def test_training_goes_on_with_another_number_of_workers(tmp_path):
    """Two workers, then three, then one process: as one process in one go, checkpoints included."""
    model_fn = model()
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config(), max_steps=9)
    folder = tmp_path / "many"
    assert_trained_alike(train_workers(model_fn, parts([0, 8, ROWS]), folder, max_steps=3))
    assert_trained_alike(train_workers(model_fn, parts([0, 2, 8, ROWS]), folder, max_steps=6))
    found = train(model_fn, parts([0, ROWS])[0], folder, config(), max_steps=9)
    assert_close(found, expected)


def test_one_process_goes_on_with_workers_that_accumulated(tmp_path):
    """Their checkpoints have no totals, which begin at zero in the next update."""
    model_fn = model(accumulate_steps=2)
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config(), max_steps=4)
    folder = tmp_path / "many"
    assert_trained_alike(train_workers(model_fn, parts([0, 8, ROWS]), folder, max_steps=2))
    found = train(model_fn, parts([0, ROWS])[0], folder, config(), max_steps=4)
    del found["gradient_accumulation/steps"], expected["gradient_accumulation/steps"]
    assert_close(found, expected)


def plain_model_fn(features, labels, mode):
    """A program of 2018: an optimizer that nobody wrapped."""
    kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
    loss = v1.losses.mean_squared_error(labels, tf.matmul(features["x"], kernel))
    optimizer = v1.train.GradientDescentOptimizer(0.01)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_an_optimizer_that_is_not_wrapped_is_refused_in_towers(tmp_path):
    role = cluster(2)[0]
    with pytest.raises(ValueError, match=r"Cannot train with AllReduce: no optimizer of tf\.comp"):
        train(plain_model_fn, parts([0, ROWS])[0], tmp_path, config(role))


def kfac_model(adapts, momentum, kind, approx=None, **settings):
    """Two dense layers, trained by K-FAC with statistics of the given labels."""

    def model_fn(features, labels, mode):
        layers = kfac.graph_layer_collection()
        hidden, labels = tf.cast(features["x"], kind), tf.cast(labels, kind)
        for seed, (name, shape) in enumerate({"hidden": [5, 4], "out": [4, 1]}.items()):
            start = np.random.RandomState(seed).randn(*shape).astype(kind)
            with v1.variable_scope(name):
                weights = v1.get_variable("w", initializer=start)
                bias = v1.get_variable("b", initializer=np.zeros(shape[1], kind))
            inputs, outputs = hidden, hidden @ weights + bias
            layers.register_fully_connected((weights, bias), inputs, outputs, approx=approx)
            hidden = tf.tanh(outputs)
        layers.register_normal_predictive_distribution(outputs, targets=labels, name="loss")
        loss = tf.reduce_mean(tf.square(outputs - labels)) / 2
        optimizer = replicate.TowerOptimizer(
            lambda: kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=None if momentum.startswith("qmodel") else 0.05,
                momentum=None if momentum == "qmodel" else 0.9,
                damping=0.1,
                **{"invert_every": 2, **settings},
                cov_update_every=1,
                layer_collection=layers,
                estimation_mode="empirical",
                momentum_type=momentum,
                adapt_damping=adapts,
                damping_adaptation_interval=2,
            )
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


@pytest.mark.parametrize(
    ("adapts", "momentum", "kind"),
    [
        (False, "regular", np.float32),
        (True, "regular", np.float64),  # ρ divides by a small difference of losses.
        (False, "qmodel", np.float64),
    ],
)
def test_kfac_on_workers_with_towers_equals_one_tower(tmp_path, adapts, momentum, kind):
    """Statistics are of the whole batch, and the inverses are divided over the workers."""
    model_fn = kfac_model(adapts, momentum, kind)
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config())
    found = train_workers(
        model_fn, parts([0, 8, ROWS]), tmp_path / "many", devices=TOWERS, uneven="weighted"
    )
    assert_trained_alike(found)
    assert_close(found[0], expected, 5e-6)


@pytest.mark.parametrize(("invert_every", "spreads_first"), [(2, False), (3, False), (3, True)])
def test_kfac_spreads_inverses_over_steps_and_workers(tmp_path, invert_every, spreads_first):
    """Each step computes some of the inverses, and the workers divide these."""
    settings = {
        "spread_inverses": True,
        "spread_first_inverses": spreads_first,
        "invert_every": invert_every,
    }
    model_fn = kfac_model(False, "regular", np.float32, **settings)
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config())
    found = train_workers(
        model_fn, parts([0, 8, ROWS]), tmp_path / "many", devices=TOWERS, uneven="weighted"
    )
    assert_trained_alike(found)
    assert_close(found[0], expected, 5e-6)


@pytest.mark.parametrize(
    ("approx", "bounds", "devices"),
    [("kron", [0, 8, ROWS], TOWERS), ("ekfac", [0, 3, 8, ROWS], ["/cpu:0"])],
)
def test_kfac_inverts_beside_the_steps_as_one_tower_does(tmp_path, approx, bounds, devices):
    """Each worker computes a share, which all use in the same step."""
    settings = {"invert_every": 3, "inverse_delay": 2, "approx": approx}
    model_fn = kfac_model(False, "regular", np.float64, **settings)
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config())
    inputs, shares = parts(bounds), {"devices": devices, "uneven": "weighted"}
    found = train_workers(model_fn, inputs, tmp_path / "many", **shares)
    assert_trained_alike(found)
    assert found[0]["kfac/snapshot_step"] == 6
    assert_close(found[0], expected, 5e-6)


def test_kfac_without_a_delay_makes_other_steps(tmp_path):
    """So workers that ignored it would be found."""
    found = [
        train(
            kfac_model(False, "regular", np.float64, invert_every=3, inverse_delay=delay),
            parts([0, ROWS])[0],
            tmp_path / str(delay),
            config(),
        )["hidden/w"]
        for delay in (0, 2)
    ]
    assert np.abs(found[0] - found[1]).max() > 1e-4


def test_kfac_goes_on_with_inverses_that_another_number_of_workers_has_begun(tmp_path):
    """Checkpoints have the copy of the averages, between its step and the use of its inverses."""
    model_fn = kfac_model(False, "regular", np.float64, invert_every=4, inverse_delay=3)
    expected = train(model_fn, parts([0, ROWS])[0], tmp_path / "one", config(), max_steps=9)
    folder = tmp_path / "many"
    assert_trained_alike(train_workers(model_fn, parts([0, 8, ROWS]), folder, max_steps=5))
    found = train(model_fn, parts([0, ROWS])[0], folder, config(), max_steps=6)
    assert found["kfac/snapshot_step"] == 4
    found = train_workers(model_fn, parts([0, 8, ROWS]), folder, max_steps=9)
    assert_trained_alike(found)
    assert_close(found[0], expected)


def test_a_worker_whose_thread_fails_ends_with_its_error_and_the_others_lose_it(
    tmp_path, monkeypatch
):
    computed, has_failed = DelayedInverses._computed, set()

    def failing(self):
        rank = current_step().rank
        if rank != 1 or rank in has_failed:
            return computed(self)
        has_failed.add(rank)  # Its thread; what a step computes itself is built later.
        bad = tf.debugging.check_numerics(tf.constant(np.nan), "not a number")
        with v1.control_dependencies([bad]):
            return computed(self)

    monkeypatch.setattr(DelayedInverses, "_computed", failing)
    model_fn = kfac_model(False, "regular", np.float32, invert_every=3, inverse_delay=2)
    settings = replicate.AllReduce(timeout_secs=4, check_every=0)
    chief, worker = train_workers(model_fn, parts([0, 6, ROWS]), tmp_path, settings)
    assert isinstance(worker, tf.errors.InvalidArgumentError), worker
    assert "inverses_beside_steps" in str(worker)
    assert "not a number" in str(worker)
    assert isinstance(chief, replicate.ClusterError), chief


@pytest.mark.parametrize("strategy", ["all_reduce", "multi worker"])
def test_programs_without_towers_need_no_changes(tmp_path, strategy, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with tf.Graph().as_default():
        old = v1.distribute.experimental.MultiWorkerMirroredStrategy()
    settings = {"all_reduce": replicate.AllReduce(), "multi worker": old}[strategy]
    expected = train(plain_model_fn, parts([0, ROWS])[0], tmp_path / "one", config())

    def work(role, input_fn):
        kept = Variables()
        estimator = replicate.Estimator(
            plain_model_fn, str(tmp_path / "many"), config(role, settings)
        )
        estimator.train(input_fn, max_steps=STEPS, hooks=[kept])
        return kept.values

    pairs = zip(cluster(2), parts([0, 6, ROWS]), strict=True)
    found = in_threads([lambda pair=pair: work(*pair) for pair in pairs])
    assert_trained_alike(found)
    assert_close(found[0], expected)


def test_sync_replicas_is_refused(tmp_path):
    def sync():
        return v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 2)

    role = cluster(2)[0]
    with pytest.raises(ValueError, match="cannot wrap a SyncReplicasOptimizer with train_distri"):
        train(model(sync), parts([0, ROWS])[0], tmp_path, config(role))


def evaluating_model(metrics):
    def model_fn(features, labels, mode):
        kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(0.1))
        predictions = tf.matmul(features["x"], kernel)
        loss = v1.losses.mean_squared_error(labels, predictions)
        if mode == replicate.ModeKeys.EVAL:
            found = metrics(labels, predictions)
            return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops=found)
        train_op = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(0.01)).minimize(
            loss, v1.train.get_global_step()
        )
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def sums(labels, predictions):
    return {"mean": v1.metrics.mean(predictions), "above": v1.metrics.mean(predictions > 0)}


def evaluate_together(model_fn, input_fns, folder, workers, steps=None, devices=("/cpu:0",)):
    """Evaluates the initial variables. Returns each worker's results or error."""
    settings = replicate.AllReduce(timeout_secs=10, evaluates=True)

    def work(role, input_fn):
        replicated = replicate.replicate_model_fn(model_fn, devices=devices, uneven="weighted")
        estimator = replicate.Estimator(replicated, str(folder), config(role, settings))
        return estimator.evaluate(input_fn, steps=steps)

    pairs = zip(cluster(workers), input_fns, strict=True)
    return in_threads([lambda pair=pair: work(*pair) for pair in pairs])


def of_rows(batch=5, share=lambda dataset: dataset):
    return lambda: share(tf.data.Dataset.from_tensor_slices(rows(0, ROWS))).batch(batch)


@pytest.mark.parametrize(
    ("workers", "steps", "devices"), [(2, None, ["/cpu:0"]), (3, 2, ["/cpu:0"]), (2, None, TOWERS)]
)
def test_workers_evaluate_as_one_process(tmp_path, workers, steps, devices):
    """Three batches, or two of them: with three workers the last one has none."""
    model_fn = evaluating_model(sums)
    estimator = replicate.Estimator(model_fn, str(tmp_path / "one"), config())
    expected = estimator.evaluate(of_rows(), steps=steps)
    found = evaluate_together(
        model_fn, [of_rows()] * workers, tmp_path / "many", workers, steps, devices
    )
    assert found == [pytest.approx(expected, rel=0, abs=1e-6)] * workers
    assert len(list((tmp_path / "many" / "eval").glob("events*"))) == 1, "the chief writes them"


def test_an_input_that_is_shared_already_is_not_shared_again(tmp_path):
    estimator = replicate.Estimator(evaluating_model(sums), str(tmp_path / "one"), config())
    expected = estimator.evaluate(of_rows(1))
    shared = of_rows(1, replicate.worker_share)
    found = evaluate_together(evaluating_model(sums), [shared] * 2, tmp_path / "many", 2)
    assert found == [pytest.approx(expected, rel=0, abs=1e-6)] * 2


def test_workers_that_evaluate_nothing_or_other_metrics_or_tensors_get_an_error(tmp_path):
    found = evaluate_together(evaluating_model(sums), [of_rows()] * 2, tmp_path, 2)
    nothing = evaluate_together(
        evaluating_model(sums), [lambda: of_rows()().take(0)] * 2, tmp_path, 2
    )
    assert ["ended before its first batch" in str(each) for each in nothing] == [True] * 2, nothing
    assert found[0] == found[1]

    def uneven(labels, predictions, calls=[]):  # noqa: B006
        calls.append(1)
        return {"mean": v1.metrics.mean(predictions, name=f"mean_{len(calls)}")}

    differing = evaluate_together(evaluating_model(uneven), [of_rows()] * 2, tmp_path, 2)
    assert [type(each) for each in differing] == [replicate.WorkersDifferError] * 2
    assert "worker 0 at " in str(differing[0])
    assert "evaluates something else than chief 0 at " in str(differing[1])
    tensors = evaluate_together(
        evaluating_model(sums),
        [lambda: tf.nest.map_structure(tf.constant, rows(0, 4))] * 2,
        tmp_path,
        2,
    )
    assert all(
        "must return a tf.data.Dataset to be evaluated by 2 workers" in str(each)
        for each in tensors
    )
