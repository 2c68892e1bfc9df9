"""Graphs in files: event files, and graph.pbtxt."""

import pathlib
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from replicate.estimator import Estimator, RunConfig
from replicate.estimator.hooks import graph_files as module
from replicate.estimator.hooks.event_file import EventFile
from replicate.estimator.hooks.graph_files import (
    GraphFiles,
    WrittenGraph,
    graph_digest,
    graph_text,
    graph_without_data,
    is_text_of,
)
from replicate.estimator.hooks.saving import build_saver
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1

DATA = b"data of the input.  " * 240
"""4,800 bytes that no file may hold."""


def input_fn():
    """Data in constants, of numbers and strings, and in a function that the pipeline calls."""
    rows = np.frombuffer(DATA, np.uint8).reshape(-1, 4)
    texts = np.array([DATA[i : i + 40] for i in range(len(rows))])
    dataset = tf.data.Dataset.from_tensor_slices({"x": rows, "text": texts})

    def mixed(row):
        text = tf.strings.join([row["text"], DATA])
        return {"x": tf.cast(row["x"], tf.float32) / 255.0, "text": text}

    return dataset.map(mixed).repeat().batch(2)


def model_fn(features, labels, mode):
    w = v1.get_variable("w", initializer=tf.zeros([4]))
    table = tf.constant(np.arange(1000, dtype=np.float32), name="table")  # Not of the input.
    output = tf.identity(tf.linalg.matvec(features["x"], w) + table[0], name="output")
    loss = tf.reduce_mean((output - 1.0) ** 2)
    optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The directory of a model on two towers, trained for 4 steps."""
    folder = tmp_path_factory.mktemp("trained")
    replicated = replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:0"])
    # One checkpoint is kept, so that the one before it is deleted while another is saved.
    config = RunConfig(
        str(folder),
        save_checkpoints_steps=2,
        keep_checkpoint_max=1,
        progress="off",
        save_input_position=False,
    )
    Estimator(replicated, config=config).train(input_fn, max_steps=4)
    return folder


def test_graph_is_written_beside_every_checkpoint_without_the_data(trained):
    assert [path.name for path in trained.glob("*.meta")] == ["model.ckpt-4.meta"]
    assert (trained / "graph.pbtxt").exists()
    for path in filter(pathlib.Path.is_file, trained.rglob("*")):
        content = path.read_bytes()
        assert DATA[:40] not in content, path.name
        assert DATA[40:80].decode() not in content.decode(errors="ignore"), path.name


def test_large_constants_of_the_input_become_placeholders(trained):
    meta_graph = v1.MetaGraphDef.FromString((trained / "model.ckpt-4.meta").read_bytes())
    nodes = meta_graph.graph_def.node
    found = sorted(
        (node.attr["dtype"].type, [dim.size for dim in node.attr["shape"].shape.dim])
        for node in nodes
        if node.op == "Placeholder"
    )
    assert found == [(tf.uint8.as_datatype_enum, [1200, 4]), (tf.string.as_datatype_enum, [1200])]
    (table,) = (node for node in nodes if node.name == "table")
    assert table.op == "Const", "constants of the model stay"


def test_import_meta_graph_and_restore_continue_the_model(trained):
    checkpoint = str(trained / "model.ckpt-4")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.train.import_meta_graph(f"{checkpoint}.meta").restore(session, checkpoint)
        (w,) = v1.trainable_variables()
        expected = tf.train.load_variable(checkpoint, "w")
        np.testing.assert_array_equal(session.run(w), expected)
        assert session.run(v1.train.get_global_step()) == 4
        batch = next(op for op in graph.get_operations() if op.type == "IteratorGetNext")
        feeds = {
            output: np.ones([2, 4]) if output.dtype == tf.float32 else ["", ""]
            for output in batch.outputs
        }
        (train_op,) = graph.get_collection(v1.GraphKeys.TRAIN_OP)
        session.run(train_op, feeds)
        assert session.run(v1.train.get_global_step()) == 5
        assert (session.run(w) != expected).all()


def write(folder, initial=1.0, **settings):
    """Writes the files of a graph with one variable in two sessions; returns the GraphFiles."""
    with tf.Graph().as_default() as graph:
        w = v1.get_variable("w", initializer=initial)
        scaffold = v1.train.Scaffold()
        saver = build_saver(scaffold, RunConfig())
        own = {
            "object": object(),
            "variable": w,
            "tensor": w.op.outputs[0],
            "text": "a",
            "rate": 2.5,
        }
        for name, value in own.items():
            v1.add_to_collection(f"collection of {name}", value)
        writer = EventFile(str(folder))
        files = GraphFiles(str(folder), saver, writer, (), **settings)
        for _ in range(2):
            with v1.Session() as session:
                files.after_create_session(session, None)
        files.write_meta(graph, f"{folder}/a", f"{folder}/a")
        writer.close()
    return files, graph


def test_graph_is_written_in_the_first_session_only(tmp_path, caplog, own_log):
    write(tmp_path, for_checkpoints=True)
    (path,) = tmp_path.glob("events.*")
    events = EventFileLoader(str(path)).Load()
    assert [event.HasField("graph_def") for event in events].count(True) == 1
    assert caplog.text == "", "a collection that cannot be written is left out in silence"
    with tf.Graph().as_default() as graph:
        v1.train.import_meta_graph(f"{tmp_path}/a.meta")
        assert graph.get_collection("collection of object") == []
        assert graph.get_collection("collection of rate") == [2.5]
        (variable,) = v1.trainable_variables()
        assert variable.op.name == "w"


def graphs_in_events(folder):
    """Returns the number of graphs in all event files of a directory."""
    events = [
        event for path in folder.glob("events.*") for event in EventFileLoader(str(path)).Load()
    ]
    return sum(event.HasField("graph_def") for event in events)


def test_rounds_of_one_estimator_write_their_graph_once(tmp_path):
    def input_fn():
        return tf.data.Dataset.from_tensors({"x": tf.ones([2, 4])}).repeat()

    config = RunConfig(str(tmp_path), save_checkpoints_steps=1, progress="off")
    estimator = Estimator(model_fn, config=config)
    texts = set()
    for step in (1, 2, 3):
        estimator.train(input_fn, max_steps=step)
        texts.add((tmp_path / "graph.pbtxt").stat().st_mtime_ns)
        assert (tmp_path / f"model.ckpt-{step}.meta").exists()
    assert len(list(tmp_path.glob("events.*"))) == 3
    assert graphs_in_events(tmp_path) == len(texts) == 1
    events = EventAccumulator(str(tmp_path)).Reload()
    nodes = {node.name for node in events.Graph().node}
    assert {"output", "table", "save/restore_all"} <= nodes
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3]


@pytest.mark.parametrize("for_checkpoints", [True, False])
def test_a_graph_is_written_again_only_if_it_or_a_file_is_missing(tmp_path, for_checkpoints):
    settings = {"for_checkpoints": for_checkpoints, "written": WrittenGraph()}
    for _ in range(2):
        write(tmp_path, **settings)
    assert graphs_in_events(tmp_path) == 1
    for path in tmp_path.glob("events.*"):
        path.unlink()
    write(tmp_path, **settings)
    assert graphs_in_events(tmp_path) == 1
    write(tmp_path, 2.0, **settings)
    assert graphs_in_events(tmp_path) == 2
    assert (tmp_path / "graph.pbtxt").exists() == for_checkpoints


@pytest.mark.parametrize("by_others", [b"of another program", None], ids=["changed", "removed"])
def test_graph_pbtxt_of_others_is_replaced(tmp_path, by_others):
    written = WrittenGraph()
    write(tmp_path, for_checkpoints=True, written=written)
    path = tmp_path / "graph.pbtxt"
    text = path.read_bytes()
    path.unlink()
    if by_others is not None:
        path.write_bytes(by_others)
    write(tmp_path, for_checkpoints=True, written=written)
    assert path.read_bytes() == text


def test_digest_sees_what_a_function_computes_and_not_its_number_or_place():
    def graph_def(*factors):
        with tf.Graph().as_default() as graph:
            numbers = tf.data.Dataset.range(3)
            for factor in factors:
                numbers = numbers.map(lambda row, factor=factor: row * factor)
            numbers.map(lambda row: tf.numpy_function(lambda x: x, [row], tf.int64))
            return graph.as_graph_def()

    def digest(*factors):
        return graph_digest(graph_def(*factors))

    given, backwards = graph_def(2, 3), v1.GraphDef()
    backwards.CopyFrom(given)
    del backwards.library.function[:]
    backwards.library.function.extend(reversed(given.library.function))
    assert len(given.library.function) == 3
    assert graph_digest(backwards) == graph_digest(given)
    # A digest changes if a number gets another digit.
    assert any(digest(2, 3) == digest(2, 3) for _ in range(3))
    assert len({digest(2, 3), digest(3, 2), digest(2, 2), digest(2)}) == 4


def test_training_does_not_need_graph_pbtxt(tmp_path, monkeypatch, caplog):
    def full(*args, **kwargs):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.io.gfile, "rename", full)
    write(tmp_path, for_checkpoints=True)
    assert "graph.pbtxt cannot be written: No space left on device" in caplog.text
    assert (tmp_path / "a.meta").exists()


def test_a_meta_file_is_built_again_if_the_one_before_is_missing(tmp_path, caplog):
    files, graph = write(tmp_path, for_checkpoints=True)
    expected = (tmp_path / "a.meta").read_bytes()
    files.write_meta(graph, f"{tmp_path}/b", f"{tmp_path}/b")
    assert (tmp_path / "b.meta").read_bytes() == expected
    for name in ("c", "d"):
        (tmp_path / f"{name}.meta").mkdir()
        files.write_meta(graph, f"{tmp_path}/{name}", f"{tmp_path}/{name}")
    assert caplog.text.count("*.meta cannot be written: ") == 1
    for path in tmp_path.glob("[ab].meta"):
        path.unlink()
    files.write_meta(graph, f"{tmp_path}/e", f"{tmp_path}/e")
    found, wanted = map(v1.MetaGraphDef.FromString, ((tmp_path / "e.meta").read_bytes(), expected))
    assert (found.saver_def, found.graph_def) == (wanted.saver_def, wanted.graph_def)


def test_small_constants_and_functions_of_the_model_keep_their_values(graph):
    big = np.arange(1000, dtype=np.float32)

    @tf.function
    def shared(x):
        return x + big[:500]

    small = tf.constant([1.0, 2.0], name="small")
    shared(small[0])
    of_input = {operation.name for operation in graph.get_operations()}
    shared(tf.constant(1.0))
    stripped = graph_without_data(graph, of_input)
    assert all(node.op != "Placeholder" for node in stripped.node)
    bodies = [node for function in stripped.library.function for node in function.node_def]
    assert any(node.op == "Const" for node in bodies)
    assert all(node.op != "Placeholder" for node in bodies)


@pytest.mark.parametrize("can_parse_str", [True, False])
def test_text_parses_to_the_same_graph(can_parse_str):
    with tf.Graph().as_default() as graph:
        tf.constant([1 / 3, 1e-30, float("inf"), float("nan"), -0.0])
        tf.constant([b'"\xff\n', "é".encode()])
        graph_def = graph.as_graph_def()
    assert module._can_parse_str()
    with mock.patch.object(module, "_can_parse_str", return_value=can_parse_str):
        assert is_text_of(graph_text(graph_def), graph_def)
    assert not is_text_of(f'node {{ name: "other" }} {graph_def}', graph_def)
