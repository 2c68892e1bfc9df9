"""Records of tf.data pipelines: readable descriptions, their differences, buffers and seeds.

Owns the comparison of two pipelines. A record holds the element spec and the operations of the
graph from the sources to the dataset, with their attributes and small constants. Functions count by
their content, since their names are generated. Large constants count by dtype and shape.
`input_position.py` saves a record with every position. It chooses the way to save it by the large
buffers of the iterator, and the random operations without a seed, as far as the graph shows them.
"""

import dataclasses
import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Operation, Tensor

v1 = tf.compat.v1

_SHOWN_ELEMENTS = 16
"""Maximum elements of a constant that is recorded by value."""

_DIGESTED_BYTES = 1 << 20
"""Maximum bytes of a constant that is recorded by a digest; others by dtype and shape alone."""

_MOST_DIFFERENCES = 3
"""Maximum differences in a description."""

_GENERATED = ("metadata", "shared_name", "container", "token")
"""Attributes whose values TensorFlow generates in each program."""

_SHARE = "ShardDataset"
"""Operation of a worker's share."""

_RESULTS = ("output_types", "output_shapes")
"""Attributes that follow from others."""


@dataclasses.dataclass(frozen=True)
class RecordedOp:
    """One operation of a pipeline: its kind, and its inputs and attributes as text by name."""

    type: str
    settings: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class PipelineRecord:
    """A description of a pipeline that two processes can compare.

    Operations come after those that they read from.
    """

    elements: str
    ops: tuple[RecordedOp, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns the record as lists, dicts and strings for JSON."""
        return {"elements": self.elements, "ops": [[op.type, op.settings] for op in self.ops]}

    @staticmethod
    def from_json(value: Any) -> "PipelineRecord":
        """Returns the record of an `as_json` value; KeyError, TypeError, ValueError for others."""
        ops = tuple(RecordedOp(kind, dict(settings)) for kind, settings in value["ops"])
        return PipelineRecord(str(value["elements"]), ops)


def pipeline_ops(dataset: tf.data.Dataset) -> list[Operation]:
    """Returns the operations of a dataset in its graph, each after those it reads from."""
    ordered: dict[Operation, None] = {}
    stack = [(tf.data.experimental.to_variant(dataset).op, False)]
    while stack:
        op, is_done = stack.pop()
        if is_done:
            ordered[op] = None
        elif op not in ordered:
            stack.append((op, True))
            stack += [(tensor.op, False) for tensor in reversed(op.inputs)]
    return list(ordered)


def named_inputs(op: Operation) -> dict[str, Tensor]:
    """Returns the inputs of an operation by their names; those of a list get a number."""
    arguments = op.op_def.input_arg
    tensors = list(op.inputs)
    if len(arguments) == len(tensors):
        return {argument.name: tensor for argument, tensor in zip(arguments, tensors, strict=True)}
    return {f"input_{number}": tensor for number, tensor in enumerate(tensors)}


def small_constant(tensor: Tensor) -> np.ndarray | None:
    """Returns the value of a constant that is not large, None for other tensors."""
    is_small = tensor.op.type == "Const" and _fewest_bytes(tensor) <= _DIGESTED_BYTES
    if is_small and tensor.shape.num_elements() == 0:  # tf.make_ndarray cannot read empty text.
        return np.zeros(tensor.shape.as_list(), tensor.dtype.as_numpy_dtype)
    # Unlike tf.get_static_value, this leaves it possible to feed the tensor.
    return tf.make_ndarray(tensor.op.get_attr("value")) if is_small else None


def record_pipeline(dataset: tf.data.Dataset) -> PipelineRecord:
    """Returns the record of a dataset of the default graph."""
    shown = [op for op in pipeline_ops(dataset) if op.type != "Const"]
    numbers = {op: number for number, op in enumerate(shown)}
    functions = _Functions(shown)
    ops = []
    for op in shown:
        settings = {
            name: _constant_text(tensor)
            if tensor.op.type == "Const"
            else _reference(tensor, numbers)
            for name, tensor in named_inputs(op).items()
        }
        attributes = op.node_def.attr
        settings |= {
            name: functions.text(attributes[name]) for name in attributes if _is_telling(name)
        }
        ops.append(RecordedOp(op.type, settings))
    return PipelineRecord(str(dataset.element_spec), tuple(ops))


def describe_difference(saved: PipelineRecord, present: PipelineRecord) -> str:
    """Returns the difference between two pipelines in words, "" for none."""
    if saved == present:
        return ""
    before, now = ([op.type for op in record.ops] for record in (saved, present))
    if before != now:
        return _changed_types(before, now)
    told = [
        f"{name} of {old.type} {old.settings.get(name)} -> {new.settings.get(name)}"
        for old, new in zip(saved.ops, present.ops, strict=True)
        for name in sorted(
            {*old.settings, *new.settings}, key=lambda name: (name in _RESULTS, name)
        )
        if old.settings.get(name) != new.settings.get(name)
    ]
    causes = [text for text in told if not text.startswith(_RESULTS)]
    if not told:
        return f"elements {saved.elements} -> {present.elements}"
    return "; ".join((causes or told)[:_MOST_DIFFERENCES])


def differ_in_workers(saved: PipelineRecord, present: PipelineRecord) -> bool:
    """Returns True if two pipelines of shares are the same but for the number of workers.

    The number of rows in a batch may depend on it.
    """
    counts = [
        [op.settings.get("num_shards") for op in record.ops if op.type == _SHARE]
        for record in (saved, present)
    ]
    return counts[0] != counts[1] and _of_any_share(saved) == _of_any_share(present)


def _of_any_share(record: PipelineRecord) -> list[tuple[str, dict[str, str]]]:
    """Returns the operations without what follows from the number of workers."""
    return [
        (
            op.type,
            {
                name: text
                for name, text in op.settings.items()
                if name not in (*_RESULTS, "batch_size")
                and (op.type != _SHARE or name not in ("num_shards", "index"))
            },
        )
        for op in record.ops
    ]


def _changed_types(before: list[str], now: list[str]) -> str:
    """Returns the first place where operations were added, removed or replaced."""
    matcher = difflib.SequenceMatcher(None, before, now, autojunk=False)
    _, *first = next(change for change in matcher.get_opcodes() if change[0] != "equal")
    old, new = before[first[0] : first[1]], now[first[2] : first[3]]
    if not old:
        return f"{_listed(new)} was added"
    return f"{_listed(old)} -> {_listed(new)}" if new else f"{_listed(old)} was removed"


def _listed(types: list[str]) -> str:
    more = ", …" if len(types) > _MOST_DIFFERENCES else ""
    return ", ".join(types[:_MOST_DIFFERENCES]) + more


def _is_telling(attribute: str) -> bool:
    return not attribute.startswith("_") and attribute not in _GENERATED


def _reference(tensor: Tensor, numbers: Mapping[Operation, int]) -> str:
    return f"#{numbers[tensor.op]}:{tensor.value_index}"


def _fewest_bytes(tensor: Tensor) -> int:
    """Returns the bytes of a constant; a lower bound for text."""
    return int(tensor.shape.num_elements() or 0) * max(1, tensor.dtype.size or 1)


def _constant_text(tensor: Tensor) -> str:
    """Returns the value of a small constant, else its dtype, shape and, up to 1 MB, a digest."""
    value = small_constant(tensor)
    if value is None:
        return f"{tensor.dtype.name}{tensor.shape.as_list()}"
    if value.size <= _SHOWN_ELEMENTS:
        return str(value.tolist())
    return f"{tensor.dtype.name}{list(value.shape)} {_digest([repr(value.tolist())])}"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


class _Functions:
    """Functions of the default graph, as texts that depend on their content alone."""

    def __init__(self, ops: Iterable[Operation]):
        """Copies the function library, unless no operation of `ops` calls a function."""
        self._digests: dict[str, str] = {}
        calls = any(_names_function(value) for op in ops for value in op.node_def.attr.values())
        library = v1.get_default_graph().as_graph_def().library.function if calls else ()
        self._functions = {function.signature.name: function for function in library}

    def text(self, value: Any) -> str:
        """Returns an attribute of a node as text."""
        kind = value.WhichOneof("value")
        if kind == "list":
            items = [
                self._item(field.name, item)
                for field, items in value.list.ListFields()
                for item in items
            ]
            return f"[{', '.join(items)}]"
        return self._item(kind, getattr(value, kind)) if kind else ""

    def _item(self, kind: str, value: Any) -> str:
        """Returns a value of one of the kinds that attributes have, as text."""
        texts: dict[str, Callable[[Any], str]] = {
            "type": lambda number: tf.as_dtype(number).name,
            "shape": lambda shape: str(tf.TensorShape(shape)),
            "s": lambda text: text.decode(errors="backslashreplace"),
            "tensor": _tensor_text,
            "func": lambda function: self._digest_of(function.name),
        }
        return texts.get(kind, str)(value)

    def _digest_of(self, name: str) -> str:
        """Returns the digest of a function's content, cached; "function" for unknown ones."""
        if name not in self._digests and name in self._functions:
            self._digests[name] = ""  # Ends the search in a function that calls itself.
            self._digests[name] = f"function {_digest(self._lines(self._functions[name]))}"
        return self._digests.get(name, "function")

    def _lines(self, function: Any) -> list[str]:
        """Returns arguments, operations and results of a function, with numbers as names."""
        names = [argument.name for argument in function.signature.input_arg]
        names += [node.name for node in function.node_def]
        numbers = {name: str(number) for number, name in enumerate(names)}

        def renamed(source: str) -> str:
            name, *rest = source.removeprefix("^").split(":")
            return ":".join([numbers.get(name, name), *rest])

        lines = [str(argument.type) for argument in function.signature.input_arg]
        for node in function.node_def:
            lines.append(f"{node.op}({', '.join(map(renamed, node.input))})")
            lines += [
                f"{name}={self.text(node.attr[name])}"
                for name in sorted(node.attr)
                if _is_telling(name)
            ]
        results = [function.ret[result.name] for result in function.signature.output_arg]
        return [*lines, *map(renamed, results)]


def _tensor_text(value: Any) -> str:
    shape = f"{tf.as_dtype(value.dtype).name}{tf.TensorShape(value.tensor_shape)}"
    if value.ByteSize() > _DIGESTED_BYTES:
        return shape
    return f"{shape} {_digest([repr(tf.make_ndarray(value).tolist())])}"


def _names_function(value: Any) -> bool:
    return value.WhichOneof("value") == "func" or bool(value.list.func)


_SLOT_BYTES = 172
"""Bytes that TensorFlow writes for a place in a buffer, even for an empty one."""


def large_buffers(ops: Iterable[Operation], limit: int) -> list[Operation]:
    """Returns the operations whose buffers are known to have more than `limit` bytes.

    A cache in memory counts as large: its size shows only after the first epoch.
    """
    return [op for op in ops if _is_cache_in_memory(op) or _bytes_of_buffer(op) > limit]


def sizes_to_feed(large: Iterable[Operation]) -> list[Tensor]:
    """Returns the size Tensors of large buffers; a session can feed smaller sizes to them."""
    sizes = [named_inputs(op).get("buffer_size") for op in large]
    return [size for size in sizes if size is not None and size.graph.is_feedable(size)]


def unseeded_inputs(ops: Iterable[Operation]) -> list[tuple[Tensor, Tensor]]:
    """Returns seed and seed2 of every operation without a seed."""
    pairs = []
    for op in ops:
        inputs = named_inputs(op)
        pair = inputs.get("seed"), inputs.get("seed2")
        if all(tensor is not None and _is_zero(tensor) for tensor in pair):
            pairs.append(pair)
    return pairs


def _is_zero(tensor: Tensor) -> bool:
    value = small_constant(tensor) if tensor.graph.is_feedable(tensor) else None
    return value is not None and value.size == 1 and value.item() == 0


def _is_cache_in_memory(op: Operation) -> bool:
    filename = named_inputs(op).get("filename") if op.type.startswith("CacheDataset") else None
    name = None if filename is None else small_constant(filename)
    return name is not None and not name.item()


def _bytes_of_buffer(op: Operation) -> float:
    """Returns the bytes of the serialized buffer of a dataset, as far as they are known."""
    inputs = named_inputs(op)
    is_buffer = "buffer_size" in inputs and "input_dataset" in inputs
    count = small_constant(inputs["buffer_size"]) if is_buffer else None
    if count is None:
        return 0
    shapes, types = op.get_attr("output_shapes"), op.get_attr("output_types")
    sizes = [
        (tf.TensorShape(shape).num_elements() or 0) * dtype.size
        for shape, dtype in zip(shapes, types, strict=True)
    ]
    return float(count) * (_SLOT_BYTES + sum(sizes))
