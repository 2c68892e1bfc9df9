"""Training of canned estimators without sessions of their own."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

v1 = tf.compat.v1


@pytest.fixture
def train_steps():
    """Makes steps of an estimator's model_fn on one batch, in a new graph.

    Returns losses and logits before each step, and the variables after the last one, by name.
    """

    def train(estimator, features, labels, steps=1, initial=None):
        with tf.Graph().as_default():
            v1.set_random_seed(0)
            step = v1.train.create_global_step()
            spec = estimator.model_fn(features, labels, "train", estimator.config)
            config = v1.ConfigProto(device_count={"CPU": 8})
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            with v1.Session(config=config) as session:
                session.run([v1.global_variables_initializer(), v1.tables_initializer()])
                for variable in v1.trainable_variables():
                    if initial and variable.op.name in initial:
                        variable.load(initial[variable.op.name], session)
                losses = [session.run([spec.train_op, spec.loss])[1] for _ in range(steps)]
                values = session.run({each.op.name: each for each in v1.global_variables()})
                assert session.run(step) == steps
            return SimpleNamespace(losses=losses, variables=values)

    return train
