import tensorflow as tf

from replicate.model_average import ModelAverageCustomGetter
from replicate.saved.checkpoint_names import (
    add_former_names,
    former_names,
    save_as,
    saved_objects,
    saved_variables,
)

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


def test_saved_objects_include_saveable_objects_of_the_graph(graph):
    build(averaged=True)
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
    saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
    v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
    assert saveable in saved_objects().values()
    v1.train.Saver(saved_objects())


def test_without_renamed_variables_everything_is_saved_by_its_own_name(graph):
    weights, step = build(averaged=False)
    assert saved_objects() is None
    assert saved_variables() == {"layer/w": weights, "global_step": step}


def test_save_as_renames_one_variable_in_checkpoints(graph, tmp_path):
    weights, step = build(averaged=False)
    save_as(weights, "layer/old_w")
    assert saved_variables() == {"layer/old_w": weights, "global_step": step}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver(saved_objects()).save(session, str(tmp_path / "renamed"))
    names = [name for name, _ in tf.train.list_variables(path)]
    assert names == ["global_step", "layer/old_w"]


def test_former_names_are_kept_with_the_variable(graph):
    variable = v1.get_variable("now", [])
    assert former_names() == {}
    add_former_names(variable, ["before", "long_ago"])
    assert former_names() == {"now": ("before", "long_ago")}
