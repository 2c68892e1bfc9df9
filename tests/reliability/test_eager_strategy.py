"""A multi-worker strategy that was made eagerly has taken the worker's port: one clear error."""

import pytest

PROGRAM = """
import sys
import tensorflow as tf
import replicate

strategy = tf.distribute.MultiWorkerMirroredStrategy()
config = replicate.RunConfig(model_dir=sys.argv[1], train_distribute=strategy, progress="off")

def model_fn(features, labels, mode):
    raise AssertionError("The model is not built.")

estimator = replicate.Estimator(model_fn, config=config)
try:
    estimator.train(lambda: tf.data.Dataset.range(4).batch(2), max_steps=1)
except ValueError as error:
    print("refused", error, flush=True)
"""


@pytest.mark.timeout(120)
def test_the_error_says_what_to_write(cluster, journal, tmp_path):
    supervisor = cluster("-c", PROGRAM, tmp_path, workers=2, ps=0, evaluator=False, forks=False)
    assert supervisor.run() == 0
    for name in ("chief 0", "worker 0"):
        (told,) = [text for text in journal.of(name) if text.startswith("refused")]
        assert told.startswith(f"refused Cannot start the server of {name} on port ")
        assert "MultiWorkerMirroredStrategy() does when it is made outside of a graph" in told
        assert "RunConfig(train_distribute=replicate.AllReduce())" in told
