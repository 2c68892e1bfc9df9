"""Workers of a cluster: one parameter server and three workers, all in this process."""

import contextlib
import functools
import gc
import socket
import threading

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.state import is_resource

v1 = tf.compat.v1

# Closing a session cancels the thread that waits for gradients, which TensorFlow lets show.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

STEPS, ROWS, CLASSES = 7, 12, 3
WORKERS = 3
RANDOM = np.random.RandomState(3)
X = RANDOM.randn(STEPS, ROWS, 5)
Y = RANDOM.randint(0, CLASSES, [STEPS, ROWS])
W = RANDOM.randn(5, CLASSES) / 2
FEW_THREADS = v1.ConfigProto(inter_op_parallelism_threads=4, intra_op_parallelism_threads=1)


@pytest.fixture(scope="module")
def cluster():
    """(cluster spec, servers of the parameter server and of the first two workers)."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(WORKERS + 1)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ps, *workers = (f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)
    spec = tf.train.ClusterSpec({"ps": [ps], "worker": workers})
    tasks = [("worker", 0), ("worker", 1), ("ps", 0)]
    return spec, [v1.train.Server(spec, *task, config=FEW_THREADS) for task in tasks]


def build_layer(features, labels, is_deep=False):
    """(collection, loss) of one dense layer, or two."""
    layers = kfac.LayerCollection()
    w = v1.get_variable("w", initializer=W)
    b = v1.get_variable("b", initializer=np.zeros(CLASSES))
    logits = tf.matmul(features, w) + b
    layers.register_fully_connected((w, b), features, logits)
    if is_deep:
        v, active = v1.get_variable("v", initializer=np.eye(CLASSES) + 0.1), tf.tanh(logits)
        logits = tf.matmul(active, v)
        layers.register_fully_connected(v, active, logits)
    layers.register_softmax_cross_entropy_loss(logits, targets=labels, name="loss")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return layers, tf.reduce_mean(losses)


build_two_layers = functools.partial(build_layer, is_deep=True)


def settings(layers):
    return {
        "layer_collection": layers,
        "learning_rate": 0.1,
        "damping": 0.2,
        "estimation_mode": "empirical",
    }


class Worker:
    """The graph of a worker, which gets its rows of the batch of the step."""

    def __init__(self, role, cluster_spec, container="", build=build_layer, **kwargs):
        self.role = role
        setter = v1.train.replica_device_setter(
            cluster=cluster_spec, worker_device=f"/job:worker/task:{role.task_index}"
        )
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container), v1.device(setter):
            self.step = v1.train.get_or_create_global_step()
            share = ROWS // role.num_workers
            first = role.task_index * share
            now = tf.minimum(self.step, STEPS - 1)
            x = tf.gather(tf.constant(X[:, first : first + share]), now)
            y = tf.gather(tf.constant(Y[:, first : first + share]), now)
            layers, self.loss = build(x, y)
            self.optimizer = kfac.ClusterKfacOpt(role, **settings(layers), **kwargs)
            self.train_op = self.optimizer.minimize(self.loss, self.step)
            self.variables = v1.global_variables()

    @contextlib.contextmanager
    def session(self, server, num_tokens=0, last_step=STEPS):
        """A monitored session of the worker."""
        config = v1.ConfigProto(
            device_filters=["/job:ps", f"/job:worker/task:{self.role.task_index}"],
            operation_timeout_in_ms=60_000,  # What waits for ever fails.
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with self.graph.as_default():
            hooks = [
                self.optimizer.make_session_run_hook(num_tokens=num_tokens),
                v1.train.StopAtStepHook(last_step=last_step),
            ]
            kind = v1.train.ChiefSessionCreator
            if not self.role.is_chief:
                kind = v1.train.WorkerSessionCreator
            creator = kind(v1.train.Scaffold(), server.target, config)
            # The chief's thread, which waits for gradients, ends only when the session is closed.
            with v1.train.MonitoredSession(creator, hooks, stop_grace_period_secs=0) as session:
                yield session

    def values(self, session):
        found = session.run_step_fn(lambda step_context: step_context.session.run(self.variables))
        return {v.op.name: value for v, value in zip(self.variables, found, strict=True)}


def run_all(workers, servers, visit=lambda worker, server: None):
    """Trains to the last step; returns the values that the chief sees then, by name.

    Args:
      workers: One for each of the first servers.
      servers: Of the cluster.
      visit: What each other worker does before its session begins.
    """
    results, is_ready, errors = {}, threading.Event(), []

    def run(worker, server):
        try:
            if not worker.role.is_chief:
                assert is_ready.wait(60)
                visit(worker, server)
            with worker.session(server) as session:
                is_ready.set()
                while not session.should_stop():
                    session.run(worker.train_op)
                    if worker.role.is_chief:
                        results.update(worker.values(session))
        except BaseException as error:
            errors.append(error)
            is_ready.set()

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in zip(workers, servers, strict=False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)
    return results


def by_hand(is_due, rows, lags, cov_update_every=1, build=build_layer):
    """Values after the steps of one process that makes every step from the whole batch.

    Args:
      is_due: Whether inverses are computed in a step.
      rows: How many of the batch give the averages.
      lags: Whether inverses are computed before the averages get the batch of the step; not those
        of the first one.
      cov_update_every: Steps between two updates of the averages.
      build: Builds the model.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float64, [None, 5]), v1.placeholder(tf.int64, [None])
        layers, loss = build(x, y)
        decay = 0.95**cov_update_every
        optimizer = kfac.KfacOptimizer(cov_ema_decay=decay, **settings(layers))
        ops = optimizer.make_ops_and_vars()
        train = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        session.run(v1.global_variables_initializer())
        for step in range(STEPS):
            part = {x: X[step, :rows], y: Y[step, :rows]}
            is_counted = step % cov_update_every == 0
            updates = [(ops.cov_update, is_counted), (ops.inv_update, is_due(step))]
            for op, wanted in reversed(updates) if lags and step else updates:
                if wanted:
                    session.run(op, part)
            session.run(train, {x: X[step], y: Y[step]})
        variables = v1.global_variables()
        return dict(zip([v.op.name for v in variables], session.run(variables), strict=True))


def assert_equal_to(found, expected):
    compared = [name for name in expected if not name.endswith("sample_step")]
    assert len(compared) > 10
    for name in compared:
        np.testing.assert_allclose(found[name], expected[name], 1e-9, 1e-12, err_msg=name)


def test_shared_statistics_are_those_of_the_whole_batch(cluster):
    """Also if a worker is started again: in lock-step the chief waits for it."""
    spec, servers = cluster
    more = {"invert_every": 3, "cov_update_every": 2, "build": build_two_layers}
    workers = [
        Worker(kfac.WorkerRole("shared", 2, index), spec, "shared", **more) for index in range(2)
    ]
    before = {}

    def make_two_steps(worker, server):
        with worker.session(server) as session:
            for _ in range(2):
                session.run(worker.train_op)
            before.update(worker.values(session))

    found = run_all(workers, servers, visit=make_two_steps)
    assert before["global_step"] == 2
    assert_equal_to(found, by_hand(lambda step: step % 3 == 0, ROWS, True, 2, build_two_layers))
    assert found["global_step"] == STEPS
    owned = [worker.role.owned([4**3, 3**3, 3**3, 3**3]) for worker in workers]
    assert all(owned)
    assert sorted(owned[0] + owned[1]) == [0, 1, 2, 3]
    # Those of the one that was away are computed again, too.
    assert found["kfac/invert_at"].tolist() == [9, 9, 9, 9]


@pytest.mark.broad
def test_chief_updates_from_its_own_batch(cluster):
    spec, servers = cluster
    workers = [
        Worker(kfac.WorkerRole("chief_worker", 2, index), spec, "chief", invert_every=2)
        for index in range(2)
    ]
    found = run_all(workers, servers)
    assert_equal_to(found, by_hand(lambda step: step % 2 == 0, ROWS // 2, lags=False))


def test_chief_stands_in_for_a_worker_that_never_comes(cluster):
    """Its summaries do not wait for the gradients of the other, either."""
    spec, servers = cluster
    role = kfac.WorkerRole("shared", 2, 0)
    chief = Worker(role, spec, "absent", invert_every=2)
    with chief.graph.as_default():
        summary = v1.summary.merge_all()
    owned = role.owned([6**3, 3**3])
    others = [index for index in range(2) if index not in owned]
    assert others
    due_at = []
    with chief.session(servers[0], num_tokens=-1, last_step=13) as session:
        # Without the other worker the chief hands over two gradients for each step.
        while not session.should_stop():
            session.run(chief.train_op)
            values = chief.values(session)
            due_at.append((values["global_step"], values["kfac/invert_at"]))
        read = session.run_step_fn(lambda step_context: step_context.session.run(summary))
    assert all(at[others].min() >= step - 3 for step, at in due_at)
    assert due_at[-1][1][others].min() >= 11
    assert all(v.any() for name, v in values.items() if name.endswith("/inverse"))
    assert np.abs(values["w"] - W).max() > 0.01
    found = {v.tag: v.simple_value for v in v1.Summary.FromString(read).value}
    assert found["kfac/monitor/w/input/trace"] > 0
    for phase in ("covariance", "inverse", "apply"):
        assert 0 < found[f"kfac/monitor/{phase}_seconds"] < 60


@pytest.mark.broad
def test_no_step_is_made_before_there_are_averages(cluster):
    spec, servers = cluster
    chief, last_worker = (
        Worker(kfac.WorkerRole("dedicated_workers", 3, index), spec, "late") for index in (0, 2)
    )
    has_waited, last = threading.Event(), []

    def lead():
        with chief.session(servers[0], num_tokens=9, last_step=5) as session:
            # Three gradients are enough for a step, four leave one for the next.
            for _ in range(4):
                session.run(chief.train_op)
            last.append(chief.values(session))
            has_waited.set()
            while not session.should_stop():
                session.run(chief.train_op)
            last.append(chief.values(session))

    thread = threading.Thread(target=lead, daemon=True)
    thread.start()
    assert has_waited.wait(60)
    server = v1.train.Server(spec, "worker", 2, config=FEW_THREADS)
    with last_worker.session(server, last_step=5) as session:
        while not session.should_stop():
            session.run(last_worker.train_op)
    thread.join(60)
    assert not thread.is_alive()
    before, after = last
    assert before["global_step"] == before["kfac/counter"] == 0
    np.testing.assert_array_equal(before["w"], W)
    assert after["global_step"] >= 5
    assert after["kfac/invert_at"].min() > 0
    assert np.abs(after["w"] - W).max() > 0.01


@pytest.mark.broad
@pytest.mark.parametrize("behavior", ["v1"], indirect=True)
def test_variables_are_the_same_whoever_makes_them(behavior, caplog):
    """Of a dedicated worker's graph all is used by what it returns."""
    roles = [
        kfac.WorkerRole("shared", 2, 1),
        *(kfac.WorkerRole("dedicated_workers", 5, index) for index in (3, 4)),
    ]
    kinds, places = set(), set()
    for role in roles:
        caplog.clear()
        kind, devices = variables_of(role)
        kinds.add(kind)
        places |= devices
        gc.collect()
        told = [record for record in caplog.records if "never used" in record.getMessage()]
        # What a worker with gradients has not used here, its session uses.
        assert bool(told) == role.computes_gradients
    assert len(kinds) == 1
    assert places == {"/job:ps/task:0", "/job:ps/task:0/device:CPU:0"}


def variables_of(role):
    """Builds a worker; returns names and shapes of all variables, and devices of K-FAC's."""
    worker = Worker(role, tf.train.ClusterSpec({"ps": ["localhost:1"], "worker": ["localhost:2"]}))
    own = [v for v in worker.variables if v.op.name.startswith("kfac/")]
    assert all(map(is_resource, own))
    with worker.graph.as_default():
        assert set(own) <= set(worker.optimizer.variables())
    names = tuple(sorted((v.op.name, str(v.shape)) for v in worker.variables))
    return names, {v.device for v in own}


def test_variables_are_beside_the_parameters(graph):
    ps = iter([0, 1, 1])

    def place(op):
        is_parameter = op.type == "VarHandleOp" and not op.name.startswith("kfac/")
        return f"/job:ps/task:{next(ps)}/device:CPU:0" if is_parameter else op.device

    with v1.device(place):
        layers, loss = build_two_layers(tf.constant(X[0]), tf.constant(Y[0]))
    with v1.device("/job:worker/task:0"):
        step = v1.train.get_or_create_global_step()
    optimizer = kfac.ClusterKfacOpt(kfac.WorkerRole("shared", 1, 0), **settings(layers))
    with v1.device("/device:CPU:1"):
        optimizer.minimize(loss, step)
    own = [v for v in v1.global_variables() if v.op.name.startswith("kfac/")]
    assert own[0].device == "/job:ps/task:0/device:CPU:0"
    assert own[1].device == "/job:ps/task:1/device:CPU:0"
    assert {v.device for v in own} == {own[0].device, own[1].device}


def test_bad_periods(graph):
    role, given = kfac.WorkerRole("shared", 1, 0), settings(kfac.LayerCollection())
    for argument in ("invert_every", "cov_update_every"):
        with pytest.raises(ValueError, match=rf"{argument}=0\. It must be"):
            kfac.ClusterKfacOpt(role, **{argument: 0}, **given)
