"""A cluster inside this process, and workers in it that average two numbers."""

import itertools
import threading

import pytest
import tensorflow as tf

from replicate.launch.plan import free_ports
from replicate.model_average import ModelAverageCustomGetter, ModelAverageOptimizer

v1 = tf.compat.v1

WORKERS = 3
LIMIT_SECS = 30
_names = (f"averaging_{number}" for number in itertools.count())


@pytest.fixture(scope="package")
def servers():
    """The servers of the workers; the one of the parameter server is kept alive beside them."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS + 1)]
    cluster = {"ps": addresses[:1], "worker": addresses[1:]}
    ps = v1.train.Server(cluster, "ps", 0)
    yield [v1.train.Server(cluster, "worker", index) for index in range(WORKERS)]
    del ps


def device(index):
    return f"/job:worker/task:{index}"


def options(index):
    """The graphs of workers run a few times: optimizing them would take longer."""
    found = v1.ConfigProto(device_filters=["/job:ps", device(index)])
    found.graph_options.rewrite_options.disable_meta_optimizer = True
    return found


class Worker:
    """One worker. Its gradient is -1 for worker 0, -2 for worker 1 and so on, at a rate of 1."""

    def __init__(self, servers, name, index, num_worker, use_resource=True, interval=2, **settings):
        self.server, self.index = servers[index], index
        self.graph = tf.Graph()
        setter = v1.train.replica_device_setter(worker_device=device(index), ps_tasks=1)
        with self.graph.as_default(), v1.device(setter):
            self.global_step = v1.Variable(
                0, trainable=False, name=f"{name}/global_step", use_resource=use_resource
            )
            getter = ModelAverageCustomGetter(device(index))
            with v1.variable_scope(name, custom_getter=getter, use_resource=use_resource):
                self.locals = [
                    v1.get_variable("v0", initializer=0.0),
                    v1.get_variable("v1", initializer=1.0),
                ]
            self.centers = [pair.center for pair in getter.averaged]
            self.optimizer = ModelAverageOptimizer(
                v1.train.GradientDescentOptimizer(1.0),
                num_worker,
                index == 0,
                getter,
                interval,
                name=name,
                **settings,
            )
            gradient = tf.constant(-1.0 - index)
            self.train_op = self.optimizer.apply_gradients(
                [(gradient, variable) for variable in self.locals], self.global_step
            )
            self.hook = self.optimizer.make_session_run_hook()
            self.init_op = v1.global_variables_initializer()
            self.local_init_op = v1.local_variables_initializer()
            self.hook.begin()

    def start(self, first=False):
        """Opens a session; the chief's first session initialises the shared variables."""
        self.session = v1.Session(self.server.target, graph=self.graph, config=options(self.index))
        if first:
            self.session.run(self.init_op)
        self.session.run(self.local_init_op)
        self.coord = v1.train.Coordinator()
        self.hook.after_create_session(self.session, self.coord)
        return self

    def step(self, count=1):
        for _ in range(count):
            self.session.run(self.train_op)

    def step_beside(self):
        """Makes a step in a thread; returns a function that waits for its end."""
        errors = []

        def step():
            try:
                self.step()
            except tf.errors.OpError as error:
                errors.append(error)

        thread = threading.Thread(target=step, daemon=True)
        thread.start()

        def join(secs=LIMIT_SECS):
            thread.join(secs)
            assert not thread.is_alive(), "the step still waits"
            if errors:
                raise errors[0]

        join.thread = thread
        return join

    def die(self):
        """Stops without leaving the rounds, as a killed process does."""
        self.coord.request_stop()
        self.coord.join(stop_grace_period_secs=5)
        self.session.close()

    def leave(self):
        """Ends as a monitored session does."""
        self.hook.end(self.session)
        self.die()

    def values(self):
        """The local variables, the centers and the global step."""
        local, center, step = self.session.run([self.locals, self.centers, self.global_step])
        return [float(x) for x in local], [float(x) for x in center], int(step)


@pytest.fixture
def start_workers(servers):
    """Makes workers that average with each other and starts them; all stop at the end."""
    made = []

    def start(num_worker, started=None, **settings):
        name = next(_names)
        workers = [Worker(servers, name, i, num_worker, **settings) for i in range(num_worker)]
        for worker in workers[: num_worker if started is None else started]:
            made.append(worker.start(first=worker.index == 0))
        return workers

    yield start
    for worker in made:
        worker.die()
