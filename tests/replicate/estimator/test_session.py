import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator.session import RestoringSessionCreator

v1 = tf.compat.v1


@pytest.fixture
def model(graph):
    """A global, a local variable and a saver."""
    variable = v1.get_variable("w", initializer=1.0)
    v1.get_variable("local", initializer=3.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
    return variable, v1.train.Saver()


def save(session, variable, saver, value, path):
    variable.load(value, session)
    return saver.save(session, path, write_meta_graph=False)


def test_without_checkpoint_runs_the_initialisers(model):
    variable, saver = model
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: None)
    session = creator.create_session()
    assert session.run(variable) == 1.0
    assert session.run(v1.local_variables()) == [3.0]


def test_init_fn_runs_only_without_checkpoint(model, tmp_path):
    variable, saver = model
    scaffold = v1.train.Scaffold(
        saver=saver, init_fn=lambda scaffold, session: variable.load(7.0, session)
    )
    paths = [None]
    creator = RestoringSessionCreator(scaffold, saver, lambda: paths[-1])
    session = creator.create_session()
    assert session.run(variable) == 7.0
    paths.append(save(session, variable, saver, 5.0, f"{tmp_path}/c"))
    assert creator.create_session().run(variable) == 5.0


def test_every_session_looks_for_the_newest_checkpoint_again(model, tmp_path):
    variable, saver = model
    paths = [None]
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: paths[-1])
    first = creator.create_session()
    for value in (2.0, 4.0):
        paths.append(save(first, variable, saver, value, f"{tmp_path}/c{value}"))
        assert creator.create_session().run(variable) == value


def test_works_outside_of_the_graph_context(tmp_path):
    with tf.Graph().as_default():
        variable = v1.get_variable("w", initializer=2.0)
        saver = v1.train.Saver()
        creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: None)
    assert creator.create_session().run(variable) == 2.0


def test_restore_error_is_not_the_end_of_the_input(model, tmp_path):
    variable, saver = model
    paths = [None]
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: paths[-1])
    paths.append(save(creator.create_session(), variable, saver, 2.0, f"{tmp_path}/c"))
    (tmp_path / "c.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged file"):
        v1.train.MonitoredSession(creator)


def test_variable_that_nothing_initialises_is_named(model):
    _, saver = model
    scaffold = v1.train.Scaffold(saver=saver, init_op=tf.no_op())
    with pytest.raises(RuntimeError, match="no value for w"):
        RestoringSessionCreator(scaffold, saver, lambda: None).create_session()


def test_tables_and_iterators_are_ready(graph):
    iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(3))
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    following = iterator.get_next()
    saver = v1.train.Saver(allow_empty=True)
    scaffold = v1.train.Scaffold(saver=saver)
    session = RestoringSessionCreator(scaffold, saver, lambda: None).create_session()
    assert [session.run(following) for _ in range(3)] == [0, 1, 2]


def test_sessions_have_the_logical_cpus(graph):
    count = len(tf.config.list_logical_devices("CPU"))
    assert count > 1
    with v1.device(f"/cpu:{count - 1}"):
        there = v1.get_variable("w", initializer=2.0)
    saver = v1.train.Saver()
    config = v1.ConfigProto(allow_soft_placement=False)
    creator = RestoringSessionCreator(v1.train.Scaffold(saver=saver), saver, lambda: None, config)
    np.testing.assert_equal(creator.create_session().run(there), 2.0)


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
def test_input_of_variables_that_live_on_a_server(model, has_begun, find_checkpoint, expected):
    variable, saver = model
    server = v1.train.Server.create_local_server()
    with v1.Session(server.target) as session:
        session.run(variable.initializer)
        position = Position(has_begun)
        RestoringSessionCreator(
            v1.train.Scaffold(saver=saver),
            saver,
            find_checkpoint,
            position=position,
            target=server.target,
        ).create_session()
    assert position.calls == [expected]
