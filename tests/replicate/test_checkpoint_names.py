import tensorflow as tf

from replicate.model_average import ModelAverageCustomGetter, saved_objects, saved_variables

v1 = tf.compat.v1


def build(averaged):
    with v1.variable_scope(
        "layer", custom_getter=ModelAverageCustomGetter("") if averaged else None
    ):
        weights = v1.get_variable("w", initializer=[1.0, 2.0])
    return weights, v1.train.create_global_step()


def test_a_checkpoint_of_averages_is_that_of_an_ordinary_model(graph, tmp_path):
    build(averaged=True)
    named = saved_variables()
    assert sorted(named) == ["global_step", "layer/w"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(named["layer/w"].assign([7.0, 8.0]))
        path = v1.train.Saver(saved_objects()).save(session, str(tmp_path / "averaged"))
    with tf.Graph().as_default(), v1.Session() as session:
        weights, _ = build(averaged=False)
        v1.train.Saver().restore(session, path)
        assert session.run(weights).tolist() == [7.0, 8.0]


def test_other_things_that_are_saved_are_among_the_objects(graph):
    build(averaged=True)
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
    assert saveable in saved_objects().values()
    v1.train.Saver(saved_objects())


def test_an_ordinary_graph_is_saved_as_ever(graph):
    weights, step = build(averaged=False)
    assert saved_objects() is None
    assert saved_variables() == {"layer/w": weights, "global_step": step}
