"""Graphs and sessions of a run: options, seeds, and what is freed at the end."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import RunConfig
from replicate.errors import CheckpointError
from replicate.estimator.cluster.recovery import release_iterators
from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.random_ops import stateful_random_ops, warn_of_random_ops
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.session_options import (
    begin_graph,
    complete_config,
    restricted_options,
    session_options,
)

v1 = tf.compat.v1
JOBS = {"chief": ("a:1",), "worker": ("a:2", "a:3"), "ps": ("a:4", "a:5")}


@pytest.fixture
def model(graph):
    """A global, a local variable and a saver."""
    variable = v1.get_variable("w", initializer=1.0)
    v1.get_variable("local", initializer=3.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
    return variable, v1.train.Saver()


def save(session, variable, saver, value, path):
    variable.load(value, session)
    return saver.save(session, path, write_meta_graph=False)


def test_every_session_restores_the_newest_checkpoint_if_there_is_one(model, tmp_path):
    variable, saver = model
    paths = [None]
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: paths[-1])
    first = creator.create_session()
    assert first.run(variable) == 1.0
    assert first.run(v1.local_variables()) == [3.0]
    for value in (2.0, 4.0):
        paths.append(save(first, variable, saver, value, f"{tmp_path}/c{value}"))
        with tf.Graph().as_default():  # The session is one of the creator's graph.
            assert creator.create_session().run(variable) == value


def test_variable_that_nothing_initialises_is_named(model):
    _, saver = model
    scaffold = v1.train.Scaffold(saver=saver, init_op=tf.no_op())
    with pytest.raises(RuntimeError, match="no value for w"):
        RestoringSessionCreator(scaffold, saver, lambda: None).create_session()


def test_check_that_is_an_operation_names_no_variable(model):
    variable, saver = model
    check = v1.variables_initializer(v1.local_variables())
    scaffold = v1.train.Scaffold(saver=saver, ready_for_local_init_op=check)
    session = RestoringSessionCreator(scaffold, saver, lambda: None).create_session()
    assert session.run(variable) == 1.0


class Position:
    """An input that notes how it was started."""

    def __init__(self, has_begun=False):
        self.has_begun = has_begun
        self.calls = []

    def begin(self, session, checkpoint):
        self.calls.append(checkpoint)

    def begin_again(self, session):
        self.calls.append("again")


def damaged():
    raise CheckpointError("all damaged")


@pytest.mark.parametrize(
    ("has_begun", "find_checkpoint", "expected"),
    [(False, lambda: "newest", "newest"), (False, damaged, None), (True, damaged, "again")],
)
def test_input_of_variables_that_live_on_a_server(
    model, roles, has_begun, find_checkpoint, expected
):
    variable, saver = model
    target, position = roles["chief", 0].master, Position(has_begun)
    scaffold = v1.train.Scaffold(saver=saver)
    with v1.Session(target) as session:
        session.run(variable.initializer)
        RestoringSessionCreator(
            scaffold, saver, find_checkpoint, position=position, target=target
        ).create_session()
    assert position.calls == [expected]


def config(**settings):
    return RunConfig(cluster=ClusterConfig(JOBS, "worker", 1), **settings)


def test_complete_config_keeps_the_options_of_the_user():
    given = v1.ConfigProto(device_count={"CPU": 3}, inter_op_parallelism_threads=2)
    completed = complete_config(given)
    assert completed == given
    assert completed is not given
    assert complete_config(None).allow_soft_placement
    assert not complete_config(v1.ConfigProto()).allow_soft_placement


def test_a_session_talks_to_parameter_servers_only():
    assert list(session_options(config()).device_filters) == ["/job:ps", "/job:worker/task:1"]
    assert list(session_options(RunConfig()).device_filters) == []
    given = config(session_config=v1.ConfigProto(allow_soft_placement=True))
    assert list(session_options(given).device_filters) == ["/job:ps", "/job:worker/task:1"]
    own = config(session_config=v1.ConfigProto(device_filters=["/job:x"]))
    assert list(session_options(own).device_filters) == ["/job:x"]
    elsewhere = RunConfig(cluster=ClusterConfig(JOBS, "worker", 1, target="grpc://b:1"))
    assert list(session_options(elsewhere).device_filters) == [], "its jobs may have other names"
    restricted = restricted_options(own, "/job:ps/task:0")
    assert list(restricted.device_filters) == ["/job:ps/task:0"]
    assert list(own.session_config.device_filters) == ["/job:x"]


def test_graph_has_the_seed_and_a_step_on_the_cpu_of_a_parameter_server(graph):
    setter = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")
    with v1.device(setter):
        begin_graph(RunConfig(tf_random_seed=7))
    assert v1.train.get_global_step().device == "/job:ps/task:0/device:CPU:0"
    assert graph.seed == 7


def minimized(loss):
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    return optimizer.minimize(loss, v1.train.get_or_create_global_step())


def weights():
    return v1.get_variable("w", [3], initializer=v1.random_normal_initializer())


@pytest.mark.parametrize(
    "draw",
    [
        lambda: tf.nn.dropout(tf.ones([3]), rate=0.5),
        lambda: tf.random.shuffle(tf.ones([3])),
        lambda: tf.cast(tf.random.categorical(tf.ones([1, 2]), 3), tf.float32),
    ],
)
def test_stateful_operations_are_found_and_initializers_are_not(graph, draw):
    with v1.name_scope("drawn"):
        drawn = draw()
    found = stateful_random_ops(minimized(tf.reduce_sum(weights() * drawn)))
    assert found
    assert all(name.startswith("drawn/") for name in found)


def test_stateless_operations_and_those_that_a_step_does_not_run_are_not_found(graph):
    step = v1.train.create_global_step()
    tf.random.normal([3], name="unused")
    dataset = tf.data.Dataset.from_tensors(np.float32(1)).map(lambda x: x + tf.random.normal([]))
    rows = v1.data.make_initializable_iterator(dataset).get_next()
    kept = tf.nn.experimental.stateless_dropout(weights(), rate=0.5, seed=replicate.step_seed(1))
    seed = tf.stack([0, tf.cast(step.read_value(), tf.int32)])
    noise = tf.random.stateless_normal([3], seed) + tf.random.stateless_uniform([3], seed)
    assert not warn_of_random_ops(minimized(tf.reduce_sum(kept * noise * rows)))


def test_operations_in_branches_functions_and_behind_control_dependencies_are_found(graph):
    @tf.function
    def noisy(x):
        return x + tf.random.uniform([3], name="inner")

    is_noisy = v1.placeholder_with_default(True, [])
    weight = weights()
    outputs = tf.cond(is_noisy, lambda: noisy(weight), lambda: tf.identity(weight), name="branch")
    with tf.control_dependencies([tf.random.normal([3], name="noise")]):
        total = tf.reduce_sum(outputs)
    noise, branch = sorted(stateful_random_ops(total), reverse=True)
    assert noise.startswith("noise/")
    assert branch.startswith("branch")
    assert "RandomUniform" in branch


def test_warning_names_the_operations_and_the_remedy(graph, caplog):
    noise = [tf.random.normal([3], name=f"noise{i}") for i in range(7)]
    assert warn_of_random_ops(minimized(tf.reduce_sum(weights() * tf.add_n(noise))))
    assert "noise0/RandomStandardNormal, noise1/" in caplog.text
    assert "noise4/RandomStandardNormal and 2 more." in caplog.text
    assert "seed=replicate.step_seed(1)" in caplog.text


@pytest.fixture
def session(graph):
    with v1.Session() as made:
        yield made


def test_all_iterators_are_empty_afterwards_and_none_is_read(graph, session):
    read = []

    def generate():
        yield read.append(1) or 1.0

    spec = tf.TensorSpec([], tf.float32)
    generated = tf.data.Dataset.from_generator(generate, output_signature=spec)
    v1.data.make_initializable_iterator(generated)
    session.run(release_iterators())
    assert read == []
    numbers = tf.data.Dataset.range(9).map(lambda x: {"x": x, "y": tf.sparse.eye(2)})
    words = tf.data.Dataset.from_tensors("word").repeat()
    iterators = [v1.data.make_initializable_iterator(each) for each in (numbers, words)]
    elements = [iterator.get_next() for iterator in iterators]
    release = release_iterators()
    session.run([iterator.initializer for iterator in iterators])
    assert session.run(elements[0]["x"]) == 0
    assert session.run(elements[1]) == b"word"
    session.run(release)
    for element in (elements[0]["x"], elements[1]):
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_release_is_on_the_device_of_the_iterator(graph):
    with v1.device("/job:worker/task:1/cpu:0"):
        v1.data.make_initializable_iterator(tf.data.Dataset.range(3))
    before = set(graph.get_operations())
    with v1.device("/job:ps/task:0/cpu:0"):
        release_iterators()
    added = [op for op in graph.get_operations() if op not in before and op.type != "NoOp"]
    assert {op.device for op in added} == {"/job:worker/task:1/device:CPU:0"}
    assert {op.type for op in added} == {"Const", "TakeDataset", "MakeIterator"}
