import tensorflow as tf

from model_deploy import device_plan
from replicate.tower.recorded_plan import record_plan, recorded_plan

v1 = tf.compat.v1


def test_the_newest_plan_of_a_graph_counts(graph):
    assert recorded_plan(graph) is None
    record_plan(device_plan(["/cpu:0"]))
    newest = device_plan(["/cpu:0", "/cpu:0"])
    record_plan(newest)
    assert recorded_plan(graph) == newest
    with tf.Graph().as_default() as other:
        assert recorded_plan(other) is None


def test_meta_graphs_do_not_hold_the_plan(graph):
    record_plan(device_plan(["/cpu:0"]))
    assert list(v1.train.export_meta_graph(graph=graph).collection_def) == []
