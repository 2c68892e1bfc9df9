"""Files of the graph of a training run: graph.pbtxt, *.meta, and the graph in the event file.

Owns their contents. Large constants of input_fn are the data of a run. They become placeholders of
the same name, type and shape, so that no file holds the data. The graph, which can take hundreds of
megabytes, is copied from TensorFlow once per run for all files. `saving.py` asks for a *.meta file
beside each checkpoint.
"""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Graph
from replicate.estimator.checkpoints.input_position import COUNTING_OP
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log

v1 = tf.compat.v1

LARGE_BYTES = 1024
"""Bytes from which a constant of the input counts as data."""

GRAPH_FILE = "graph.pbtxt"

_WAITS_FOR_COUNT = f"^{COUNTING_OP}"
"""Input of an operation that waits for the counting of the input's elements."""

_PROTO_COLLECTIONS = (
    v1.GraphKeys.QUEUE_RUNNERS,
    v1.GraphKeys.SAVERS,
    v1.GraphKeys.COND_CONTEXT,
    v1.GraphKeys.WHILE_CONTEXT,
)
"""Collections, beside those of variables, whose objects TensorFlow can write and read."""


class GraphFiles(ScheduledHook):
    """Writes the graph of a training run when it is complete."""

    def __init__(
        self,
        model_dir: str,
        saver: v1.train.Saver,
        writer: v1.summary.FileWriter,
        input_operations: Iterable[str],
        for_checkpoints: bool,
    ):
        """Keeps the settings.

        Args:
          model_dir: Directory of graph.pbtxt.
          saver: Saver that a *.meta file names; it loads the variables.
          writer: Writer of the event file.
          input_operations: Names of the operations that input_fn made.
          for_checkpoints: If True, graph.pbtxt and *.meta are written, too.
        """
        self._model_dir = model_dir
        self._saver = saver
        self._writer = writer
        self._input_operations = frozenset(input_operations)
        self._for_checkpoints = for_checkpoints
        self._is_written = False
        self._unsaved_meta: bytes | None = None
        self._newest_meta: str | None = None

    def next_run(self) -> NextRun:
        """Returns never: the graph is written before the first step."""
        return NextRun()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Writes the graph to the event file and to graph.pbtxt, in the first session only."""
        del coord
        if self._is_written:
            return
        graph_def = graph_without_data(session.graph, self._input_operations)
        event = v1.Event(wall_time=time.time(), graph_def=graph_def.SerializeToString())
        self._writer.add_event(event)
        if self._for_checkpoints:
            self._write_text(graph_def)
            self._unsaved_meta = self._meta_graph(session.graph, graph_def)
        self._is_written = True

    def write_meta(self, graph: Graph, checkpoint: str) -> None:
        """Writes the *.meta file of a checkpoint, unless `for_checkpoints` is False.

        All *.meta files of a run are equal; each is a copy of the one before it.

        Args:
          graph: Graph of the run.
          checkpoint: Path of the checkpoint, without ".meta".
        """
        if not self._for_checkpoints:
            return
        path = f"{checkpoint}.meta"
        if self._newest_meta is not None and tf.io.gfile.exists(self._newest_meta):
            tf.io.gfile.copy(self._newest_meta, path, overwrite=True)
        else:
            content = self._unsaved_meta
            if content is None:
                graph_def = graph_without_data(graph, self._input_operations)
                content = self._meta_graph(graph, graph_def)
            with tf.io.gfile.GFile(path, "wb") as file:
                file.write(content)
        self._newest_meta, self._unsaved_meta = path, None

    def _write_text(self, graph_def: Any) -> None:
        """Writes graph.pbtxt; a failure gives a warning, since training does not need the file."""
        try:
            tf.io.write_graph(graph_def, self._model_dir, GRAPH_FILE)
        except tf.errors.OpError as error:
            log.warning(
                "%s/%s cannot be written: %s. Training continues without it.",
                self._model_dir,
                GRAPH_FILE,
                error.message,
            )

    def _meta_graph(self, graph: Graph, graph_def: Any) -> bytes:
        with graph.as_default():
            meta_graph = v1.train.export_meta_graph(
                graph_def=graph_def,
                saver_def=self._saver.as_saver_def(),
                collection_list=_written_collections(graph),
            )
        content: bytes = meta_graph.SerializeToString()
        return content


def graph_without_data(graph: Graph, input_operations: Iterable[str]) -> Any:
    """Returns the GraphDef of a graph, with placeholders for the large constants of its input.

    Constants inside a function count if only operations of the input call the function. Elements
    of the input do not wait until they are counted: whoever reads the file feeds them, and has
    neither the iterator nor its counter.

    Args:
      graph: The graph; it is not changed.
      input_operations: Names of the operations that belong to the input.
    """
    names = frozenset(input_operations)
    graph_def = graph.as_graph_def(add_shapes=True)
    of_input = [node for node in graph_def.node if node.name in names]
    others = [node for node in graph_def.node if node.name not in names]
    functions = {function.signature.name: function for function in graph_def.library.function}
    of_model = _called(others, functions)
    bodies = [functions[name].node_def for name in _called(of_input, functions) - of_model]
    for nodes in (of_input, *bodies):
        for node in nodes:
            if node.op == "Const" and _size(node.attr["value"].tensor) >= LARGE_BYTES:
                _make_placeholder(node)
    for node in of_input:
        if _WAITS_FOR_COUNT in node.input:
            node.input.remove(_WAITS_FOR_COUNT)
    return graph_def


def _called(nodes: Iterable[Any], functions: dict[str, Any]) -> set[str]:
    """Returns the names of the functions that nodes call, directly or indirectly."""
    found: set[str] = set()
    waiting = [name for node in nodes for name in _named_functions(node)]
    while waiting:
        name = waiting.pop()
        if name in functions and name not in found:
            found.add(name)
            waiting += [
                each for node in functions[name].node_def for each in _named_functions(node)
            ]
    return found


def _named_functions(node: Any) -> list[str]:
    names = [node.op]
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            names.append(value.func.name)
        elif kind == "list":
            names += [function.name for function in value.list.func]
    return names


def _size(tensor: Any) -> int:
    """Returns the size of the values of a TensorProto, in bytes."""
    if tensor.dtype == tf.string.as_datatype_enum:
        return sum(map(len, tensor.string_val))
    elements = math.prod(dimension.size for dimension in tensor.tensor_shape.dim)
    return int(elements * tf.dtypes.as_dtype(tensor.dtype).size)


def _make_placeholder(node: Any) -> None:
    """Turns a constant into a placeholder for a value of its type and shape."""
    shape = node.attr["value"].tensor.tensor_shape
    node.attr["shape"].shape.CopyFrom(shape)
    del node.attr["value"]
    node.op = "Placeholder"


def _written_collections(graph: Graph) -> list[str]:
    """Returns the collections that a *.meta file can hold.

    Saveable objects are left out: the file cannot hold the saveable of an iterator, and a reader
    would fail to find its name.
    """
    return [
        key
        for key in graph.get_all_collection_keys()
        if key != v1.GraphKeys.SAVEABLE_OBJECTS
        and (key in _PROTO_COLLECTIONS or _is_writable(graph.get_collection(key)))
    ]


_KINDS: tuple[Callable[[Any], bool], ...] = (
    lambda item: isinstance(item, tf.Variable),
    lambda item: isinstance(item, (tf.Tensor, tf.Operation)),
    lambda item: isinstance(item, (str, bytes)),
    lambda item: isinstance(item, int),
    lambda item: isinstance(item, float),
)


def _is_writable(items: list[Any]) -> bool:
    """Returns True if all items of a collection are of one kind that TensorFlow can write."""
    return any(all(map(is_kind, items)) for is_kind in _KINDS)
