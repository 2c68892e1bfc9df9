"""--towers: model_fns are replicated, and optimizers wrapped, once."""

import textwrap

import pytest

from replicate.migrate.rewrite import changes_of
from replicate.migrate.towers import WRAP_BY_HAND
from replicate.migrate.uses import Module


def rewritten(text):
    """Returns the new text without its imports, and what is left."""
    module = Module(f"import tensorflow as tf\n{textwrap.dedent(text)}")
    changes = changes_of(module, towers=True)
    new = module.source.edited(changes.edits)
    again = Module(new)
    assert again.source.edited(changes_of(again, towers=True).edits) == new
    lines = [line for line in new.split("\n") if not line.startswith(("import", "from"))]
    return "\n".join(lines).strip(), [(each.old, each.advice) for each in changes.left]


CALLS = """
- o = tf.train.AdamOptimizer(0.1).minimize(l)
+ o = replicate.TowerOptimizer(tf.train.AdamOptimizer(0.1)).minimize(l)

- tf.train.SyncReplicasOptimizer(tf.train.FtrlOptimizer(1), 2)
+ replicate.TowerOptimizer(tf.train.SyncReplicasOptimizer(tf.train.FtrlOptimizer(1), 2))

- tf.contrib.tpu.CrossShardOptimizer(tf.train.FtrlOptimizer(1))
+ replicate.tpu.CrossShardOptimizer(tf.train.FtrlOptimizer(1))

- tf.contrib.estimator.TowerOptimizer(lambda: tf.train.FtrlOptimizer(1))
+ replicate.TowerOptimizer(lambda: tf.train.FtrlOptimizer(1))

- tf.contrib.kfac.optimizer.KfacOptimizer(1)
+ replicate.TowerOptimizer(lambda: kfac.optimizer.KfacOptimizer(1))

- tf.estimator.Estimator(f, 'd')
+ replicate.Estimator(replicate.replicate_model_fn(f, uneven="weighted"), 'd')

- tf.estimator.Estimator(config=c, model_fn=a.f)
+ replicate.Estimator(config=c, model_fn=replicate.replicate_model_fn(a.f, uneven="weighted"))

- f = tf.contrib.estimator.replicate_model_fn(f); tf.estimator.Estimator(f)
+ f = replicate.replicate_model_fn(f); replicate.Estimator(f)

- tf.estimator.LinearRegressor([], "d", 1, None, tf.train.FtrlOptimizer(1))
+ replicate.v1.LinearRegressor([], "d", 1, None, tf.train.FtrlOptimizer(1), DEVICES)

- tf.contrib.tpu.TPUEstimator(use_tpu=False, model_fn=f)
+ replicate.tpu.TPUEstimator(use_tpu=False, model_fn=f, DEVICES)

- tf.train.LoggingTensorHook([1])
+ tf.train.LoggingTensorHook([1])
""".replace("DEVICES", "devices=model_deploy.local_devices()")


@pytest.mark.parametrize("call", CALLS.strip().split("\n\n"))
def test_calls(call):
    old, new = (line[2:] for line in call.split("\n"))
    assert rewritten(old) == (new, [])


def test_own_optimizers_are_wrapped_where_they_are_made():
    new, left = rewritten(
        """
        class Own(tf.train.Optimizer):
            def __init__(self):
                super(Own, self).__init__(False, "Own")

        x = Own()
        """
    )
    assert new.endswith("x = replicate.TowerOptimizer(Own())")
    assert new.count("TowerOptimizer") == 1
    assert left == []


def test_wrapper_of_an_optimizer_that_is_made_elsewhere_is_left():
    text = "o = tf.train.FtrlOptimizer(1)\nif x:\n    o = tf.train.SyncReplicasOptimizer(o, 2)"
    assert rewritten(text) == (text, [("tf.train.SyncReplicasOptimizer", WRAP_BY_HAND)])
