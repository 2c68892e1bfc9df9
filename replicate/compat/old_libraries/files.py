"""yaml, pickle, json and open: data as old programs read and write them."""

import builtins
import importlib
import json
import numbers
import pickle  # noqa: TID251  # The program's own call, with what Python 2 wrote.
from typing import Any


def yaml_load(stream: Any, Loader: Any = None) -> Any:  # PyYAML's name.
    """Reads a document of YAML, without a loader by `yaml.SafeLoader`."""
    yaml: Any = importlib.import_module("yaml")
    return yaml.load(stream, Loader or yaml.SafeLoader)


def yaml_load_all(stream: Any, Loader: Any = None) -> Any:
    """Reads all documents of YAML, without a loader by `yaml.SafeLoader`."""
    yaml: Any = importlib.import_module("yaml")
    return yaml.load_all(stream, Loader or yaml.SafeLoader)


def _binary(file: Any) -> Any:
    """Returns the bytes below a file that is open as text."""
    return getattr(file, "buffer", file)


def pickle_load(file: Any, **options: Any) -> Any:
    """Reads an object, also one that Python 2 wrote, and from a file that is open as text.

    Texts of Python 2 that are not ASCII, among them arrays, are read by "latin1".
    """
    data = _binary(file)
    if "encoding" in options or not (hasattr(data, "seek") and hasattr(data, "tell")):
        return pickle.load(data, **options)  # noqa: S301
    start = data.tell()
    try:
        return pickle.load(data, **options)  # noqa: S301
    except UnicodeDecodeError:
        data.seek(start)
        return pickle.load(data, **options, encoding="latin1")  # noqa: S301


def pickle_loads(data: Any, **options: Any) -> Any:
    """Reads an object from bytes, as `pickle_load`."""
    text = data.encode("latin-1") if isinstance(data, str) else data
    try:
        return pickle.loads(text, **options)  # noqa: S301
    except UnicodeDecodeError:
        if "encoding" in options:
            raise
        return pickle.loads(text, **options, encoding="latin1")  # noqa: S301


def pickle_dump(obj: Any, file: Any, protocol: int | None = None, **options: Any) -> None:
    """Writes an object to a file, also to one that is open as text."""
    pickle.dump(obj, _binary(file), protocol, **options)


def json_load(fp: Any, encoding: Any = None, **options: Any) -> Any:
    """Reads JSON from a file; the encoding is the file's."""
    del encoding
    return json.load(fp, **options)


def json_loads(s: Any, encoding: str | None = None, **options: Any) -> Any:
    """Reads JSON from a text, or from bytes in an encoding."""
    return json.loads(s.decode(encoding) if encoding and isinstance(s, bytes) else s, **options)


def json_dump(obj: Any, fp: Any, encoding: Any = None, **options: Any) -> None:
    """Writes JSON to a file, numbers of NumPy among it; the encoding is the file's."""
    del encoding
    json.dump(obj, fp, **_with_numbers(options))


def json_dumps(obj: Any, encoding: Any = None, **options: Any) -> str:
    """Returns JSON as a text, numbers of NumPy among it."""
    del encoding
    return json.dumps(obj, **_with_numbers(options))


def _with_numbers(options: dict[str, Any]) -> dict[str, Any]:
    """Returns options that take numbers of NumPy, unless the program has its own for them.

    A sum of float32 that begins with a number of Python was a float64 until NumPy 2, and JSON.
    """
    if options.get("default") is not None or options.get("cls") is not None:
        return options
    return {**options, "default": _number}


def _number(value: Any) -> Any:
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def open_file(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
    """Opens a file as `open` does, and takes the "U" in a mode, which Python 3.11 refuses."""
    if "U" in mode:
        mode = mode.replace("U", "")
        mode = mode if set(mode) & set("rwax") else f"r{mode}"
    return builtins.open(file, mode, *args, **options)
