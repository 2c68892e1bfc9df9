import tensorflow as tf

from replicate import RunConfig
from replicate.estimator.new_graph import begin_graph

v1 = tf.compat.v1


def test_global_step_is_on_the_cpu_of_its_parameter_server(graph):
    setter = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")
    with v1.device(setter):
        begin_graph(RunConfig())
    assert v1.train.get_global_step().device == "/job:ps/task:0/device:CPU:0"


def test_seed_is_that_of_the_config(graph):
    begin_graph(RunConfig(tf_random_seed=7))
    assert graph.seed == 7
    assert not v1.train.get_global_step().device.startswith("/job")
