"""A process of a job gets no memory: its exit code tells the launcher whether to start it again."""

import signal

import pytest

PROGRAM = """
import resource, sys
import tensorflow.compat.v1 as tf
import replicate

class Shortage(tf.train.SessionRunHook):
    steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1
        if self.steps < 3:
            return
        print("limited", flush=True)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**24, used + 2**24))
        if sys.argv[1] == "Python":
            bytearray(2**30)
        threads = tf.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=64)
        with tf.Graph().as_default():
            tf.Session(config=threads).run(tf.zeros([]))

def model_fn(features, mode):
    loss = (tf.get_variable("w", initializer=1.0) - features) ** 2
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=step)

def train(*hooks):
    config = replicate.RunConfig("model", save_checkpoints_steps=2, progress="off")
    estimator = replicate.Estimator(model_fn, config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(3.0).repeat(), hooks, max_steps=5)
    return estimator.get_variable_value("global_step")

if sys.argv[1] == "enough":
    print("reached", train())
else:
    train(Shortage())
"""


@pytest.mark.parametrize(("where", "code"), [("Python", 1), ("TensorFlow", -signal.SIGABRT)])
def test_a_process_that_gets_no_memory_ends_and_can_go_on(where, code, run_python, tmp_path):
    """The launcher restarts a task that a signal has ended, and none that ended with 1."""
    ended = run_python(PROGRAM, where, folder=tmp_path)
    assert (ended.code, ended.out) == (code, "limited\n"), ended.err
    assert ("MemoryError" in ended.err) == (where == "Python")
    assert run_python(PROGRAM, "enough", folder=tmp_path).out == "reached 5\n"
