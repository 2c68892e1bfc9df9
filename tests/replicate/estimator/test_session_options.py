"""Options of sessions, from those of the user."""

import tensorflow as tf

from replicate.estimator.cluster_config import ClusterConfig
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session_options import complete_config, restricted_options, session_options

v1 = tf.compat.v1

JOBS = {"chief": ("a:1",), "worker": ("a:2", "a:3"), "ps": ("a:4", "a:5")}


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


def test_options_connect_to_the_given_devices_only():
    given = v1.ConfigProto(inter_op_parallelism_threads=2, device_filters=["/job:worker"])
    options = restricted_options(RunConfig(session_config=given), "/job:ps/task:0")
    assert options.inter_op_parallelism_threads == 2
    assert list(options.device_filters) == ["/job:ps/task:0"]
    assert list(given.device_filters) == ["/job:worker"]
