"""Text of a GraphDef, as in graph.pbtxt.

protobuf's text_format is Python code that takes as long for a graph as many training steps. `str()`
of a protobuf message runs in C and takes about an eighth of that time. protobuf does not promise
that its output can be parsed, so a sample is parsed first.
"""

import functools
import math
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

v1 = tf.compat.v1


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
