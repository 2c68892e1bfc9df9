"""Files of TensorFlow's records, of examples with features by name."""

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_records(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes examples into a file.

    Args:
      path: Path of the file, whose folder is made.
      rows: Features of each: bytes, text, whole numbers or floats, alone or in lists.
    """
    tf = importlib.import_module("tensorflow")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            features = {name: _feature(tf, value) for name, value in row.items()}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def _feature(tf: Any, value: Any) -> Any:
    values = list(value) if isinstance(value, list | tuple) else [value]
    values = [each.encode() if isinstance(each, str) else each for each in values]
    if all(isinstance(each, bytes) for each in values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if all(isinstance(each, int) for each in values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))
