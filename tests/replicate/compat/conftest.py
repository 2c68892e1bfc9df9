import types

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.source_code import compiled
from replicate.compat.tf1_view import view_builtins

v1 = tf.compat.v1


@pytest.fixture(scope="session")
def run_source():
    """Runs the source of a module that sees TensorFlow 1, and returns its names."""

    def run(source):
        names = {"__builtins__": view_builtins(), "__name__": "program", "__package__": ""}
        exec(compiled(source.encode(), "program.py"), names)
        return types.SimpleNamespace(**names)

    return run


@pytest.fixture
def old_control_flow():
    """Control flow of TensorFlow 1, as the runner has it."""
    v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


@pytest.fixture(scope="session")
def plain_session():
    """Makes a session that runs its graph as it is, which for brief runs is faster."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return lambda: v1.Session(config=config)


@pytest.fixture(scope="session")
def run_drawn(plain_session):
    """Returns what a new graph computes with random variables, and these by their names.

    All of them but a number of unused ones have a gradient.
    """

    def run(build, unused=0):
        draws = np.random.default_rng(0)
        with tf.Graph().as_default(), plain_session() as session:
            values = build()
            variables = v1.global_variables()
            drawn = {each.op.name: draws.normal(size=each.shape) for each in variables}
            if not any(each.type == "While" for each in session.graph.get_operations()):
                found = tf.gradients(tf.nest.flatten(values), v1.trainable_variables())
                assert [each is None for each in found].count(True) == unused
            session.run([v1.assign(each, drawn[each.op.name]) for each in variables])
            return session.run(values), drawn

    return run
