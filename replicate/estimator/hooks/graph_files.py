"""Files of the graph of a training run: graph.pbtxt, *.meta, and the graph in the event file.

Owns their contents. Large constants of input_fn are the data of a run. They become placeholders of
the same name, type and shape, so that no file holds the data. The graph, which can take hundreds of
megabytes, is copied from TensorFlow once per run for all files. Runs of one Estimator that build
the same graph write graph.pbtxt and the event of the graph once. `saving.py` asks for a *.meta file
beside each checkpoint.

protobuf's text_format is Python code that takes as long for a graph as many training steps. `str()`
of a protobuf message runs in C and takes about an eighth of that time. protobuf does not promise
that its output can be parsed, so a sample is parsed first.
"""

import contextlib
import dataclasses
import functools
import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from replicate._types import Graph
from replicate.estimator.checkpoints.input_position import COUNTING_OP
from replicate.estimator.files import OptionalFiles, write_whole
from replicate.estimator.hooks.event_file import EventFile
from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.graph_ops.functions import called_by

v1 = tf.compat.v1

LARGE_BYTES = 1024
"""Bytes from which a constant of the input counts as data."""

GRAPH_FILE = "graph.pbtxt"

_PYTHON_FUNCTION = rb"pyfunc_\d+"
"""Token by which a graph finds a Python function."""

_WAITS_FOR_COUNT = f"^{COUNTING_OP}"
"""Input of an operation that waits for the counting of the input's elements."""

_PROTO_COLLECTIONS = (
    v1.GraphKeys.QUEUE_RUNNERS,
    v1.GraphKeys.SAVERS,
    v1.GraphKeys.COND_CONTEXT,
    v1.GraphKeys.WHILE_CONTEXT,
)
"""Collections, beside those of variables, whose objects TensorFlow can write and read."""


@dataclasses.dataclass
class WrittenGraph:
    """The graph that the runs of an Estimator have written last, and the files that hold it.

    Attributes:
      digest: Digest of the graph; None before the first run.
      event_file: Path of the event file with the graph.
      text_file: Length and time of change of graph.pbtxt; None where it was not written.
    """

    digest: bytes | None = None
    event_file: str | None = None
    text_file: tuple[int, int] | None = None


class GraphFiles(ScheduledHook):
    """Writes the graph of a training run when it is complete."""

    def __init__(
        self,
        model_dir: str,
        saver: v1.train.Saver,
        writer: EventFile,
        input_operations: Iterable[str],
        for_checkpoints: bool,
        written: WrittenGraph | None = None,
    ):
        """Keeps the settings.

        `for_checkpoints` adds graph.pbtxt and *.meta files, which name the saver that loads the
        variables. `written`, by the run before, is brought up to date.
        """
        self._model_dir = model_dir
        self._saver = saver
        self._writer = writer
        self._input_operations = frozenset(input_operations)
        self._for_checkpoints = for_checkpoints
        self._written = WrittenGraph() if written is None else written
        self._optional = OptionalFiles()
        self._is_written = False
        self._unsaved_meta: bytes | None = None
        self._newest_meta: str | None = None

    def next_run(self) -> NextRun:
        """Returns never: the graph is written before the first step."""
        return NextRun()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Writes the graph to the event file and to graph.pbtxt, in the first session only.

        A graph that the files hold already is not written again.
        """
        del coord
        if self._is_written:
            return
        graph_def = graph_without_data(session.graph, self._input_operations)
        digest = graph_digest(graph_def)
        if not self._is_in_files(digest):
            self._write_event(graph_def)
            if self._for_checkpoints:
                self._write_text(graph_def)
            self._written.digest = digest
        if self._for_checkpoints:
            self._unsaved_meta = self._meta_graph(session.graph, graph_def)
        self._is_written = True

    def write_meta(self, graph: Graph, staged: str, checkpoint: str) -> None:
        """Writes the *.meta file of a checkpoint, unless `for_checkpoints` is False.

        It is written to `staged`.meta. All *.meta files of a run are equal; each is a copy of the
        one before it. A failure gives a warning, since no run reads the file.
        """
        if not self._for_checkpoints:
            return
        path = f"{staged}.meta"
        with self._optional.writing(f"{self._model_dir.rstrip('/')}/*.meta"):
            try:
                self._write_meta(graph, path)
            except tf.errors.OpError:
                with contextlib.suppress(tf.errors.OpError):
                    tf.io.gfile.remove(path)
                raise
            self._newest_meta, self._unsaved_meta = f"{checkpoint}.meta", None

    def _write_meta(self, graph: Graph, path: str) -> None:
        """Writes a *.meta file: a copy of the newest one, if that is still there."""
        if self._newest_meta is not None and tf.io.gfile.exists(self._newest_meta):
            tf.io.gfile.copy(self._newest_meta, path, overwrite=True)
            return
        content = self._unsaved_meta
        if content is None:
            graph_def = graph_without_data(graph, self._input_operations)
            content = self._meta_graph(graph, graph_def)
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(content)

    def _is_in_files(self, digest: bytes) -> bool:
        """Returns True if the files of the run before hold this graph, and nobody changed them."""
        written = self._written
        if written.digest != digest or written.event_file is None:
            return False
        is_same_text = not self._for_checkpoints or (
            written.text_file is not None and written.text_file == _version(self._text_path)
        )
        return is_same_text and bool(tf.io.gfile.exists(written.event_file))

    def _write_event(self, graph_def: Any) -> None:
        """Writes the graph to the event file."""
        event = v1.Event(wall_time=time.time(), graph_def=graph_def.SerializeToString())
        self._writer.add_event(event)
        self._writer.flush()
        self._written.event_file = self._writer.path

    @property
    def _text_path(self) -> str:
        return f"{self._model_dir.rstrip('/')}/{GRAPH_FILE}"

    def _write_text(self, graph_def: Any) -> None:
        """Writes graph.pbtxt; a failure gives a warning, since training does not need the file."""
        self._written.text_file = None
        with self._optional.writing(self._text_path):
            write_whole(self._text_path, graph_text(graph_def), f"{self._text_path}.tmp")
            self._written.text_file = _version(self._text_path)

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
    """
    names = frozenset(input_operations)
    graph_def = graph.as_graph_def(add_shapes=True)
    of_input = [node for node in graph_def.node if node.name in names]
    others = [node for node in graph_def.node if node.name not in names]
    functions = {function.signature.name: function for function in graph_def.library.function}
    of_model = called_by(others, functions)
    bodies = [functions[name].node_def for name in called_by(of_input, functions) - of_model]
    for nodes in (of_input, *bodies):
        for node in nodes:
            if node.op == "Const" and _size(node.attr["value"].tensor) >= LARGE_BYTES:
                _make_placeholder(node)
    for node in of_input:
        if _WAITS_FOR_COUNT in node.input:
            node.input.remove(_WAITS_FOR_COUNT)
    return graph_def


def graph_digest(graph_def: Any) -> bytes:
    """Returns a digest that equal graphs of one process share.

    TensorFlow numbers the functions of tf.data, and Python functions, over all graphs of a process,
    and lists functions in the order of a hash table. Neither counts: the digest of a function's
    body takes the place of its name. If a number gets more digits, the digest can change, too.
    """
    library = graph_def.library
    functions = {function.signature.name.encode(): function for function in library.function}
    names = sorted(functions, key=len, reverse=True)  # A longer name may begin with a shorter one.
    numbered = re.compile(b"|".join([*map(re.escape, names), _PYTHON_FUNCTION]))
    known: dict[bytes, bytes] = {}

    def unnumbered(name: re.Match[bytes]) -> bytes:
        return body_digest(name[0]) if name[0] in functions else _without_number(name[0])

    def content_of(message: Any) -> bytes:
        return numbered.sub(unnumbered, message.SerializeToString(deterministic=True))

    def body_digest(name: bytes) -> bytes:
        if name not in known:
            known[name] = _without_number(name)  # Inside of its own body.
            known[name] = hashlib.sha256(content_of(functions[name])).digest()
        return known[name]

    digest = hashlib.sha256(content_of(graph_def.versions))
    for content in (
        *map(content_of, graph_def.node),
        *sorted(map(body_digest, functions)),
        *sorted(map(content_of, library.gradient)),
    ):
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.digest()


def _without_number(name: bytes) -> bytes:
    """Returns the name of a function without the number at its end."""
    return name.rstrip(b"0123456789")


def _version(path: str) -> tuple[int, int] | None:
    """Returns length and time of change of a file, None if it cannot be read."""
    try:
        found = tf.io.gfile.stat(path)
    except tf.errors.OpError:
        return None
    return found.length, found.mtime_nsec


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


def graph_text(graph_def: Any) -> str:
    """Returns the text of a GraphDef, which `google.protobuf.text_format.Parse` reads."""
    if _can_parse_str():
        return str(graph_def)
    text: str = text_format.MessageToString(graph_def)
    return text


@functools.cache
def _can_parse_str() -> bool:
    """Returns True if `str()` of a sample is text of it."""
    sample = _sample()
    return is_text_of(str(sample), sample)


def is_text_of(text: str, graph_def: Any) -> bool:
    """Returns True if a text can be parsed, and that gives an equal GraphDef."""
    try:
        parsed = text_format.Parse(text, v1.GraphDef())
    except text_format.ParseError:
        return False
    contents = (x.SerializeToString(deterministic=True) for x in (parsed, graph_def))
    return len(set(contents)) == 1


def _sample() -> Any:
    """Returns a GraphDef with values that are hard to write as text."""
    graph_def = v1.GraphDef(versions={"producer": 1})
    graph_def.library.function.add().signature.name = "f"
    node = graph_def.node.add(name='a/"b"', op="Const", input=["^c", "d:1"])
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([b'"\xff\n\\', "é".encode()]))
    node.attr["bytes"].s = bytes(range(256))
    node.attr["function"].func.name = "f"
    node.attr["list"].list.f.extend([1 / 3, 1e-30, -0.0, math.inf, -math.inf, math.nan])
    node.attr["list"].list.i.extend([-(2**63), 2**63 - 1])
    node.attr["double"].tensor.double_val.extend([1 / 3, 5e-324, math.nan])
    node.attr["shape"].shape.dim.add(size=-1)
    return graph_def
