"""The HParams of tf.contrib.training: named hyper-parameters, each of one type."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from replicate.errors import ArgumentTypeError

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(\[(?P<items>[^\]]*)\]|(?P<value>[^,\[]*))\s*(,|$)"
)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class HParams:
    """Hyper-parameters as attributes, which keep the types that they start with.

    `HParams(rate=0.1, layers=[64, 32]).parse("rate=0.01,layers=[32,16]")` reads new values from the
    text of a flag.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        """Adds all keyword arguments as hyper-parameters.

        Args:
          hparam_def: Always None. It was a protocol buffer of tf.contrib.
          model_structure: Any value, kept for `get_model_structure`.
          **kwargs: Names and first values.

        Raises:
          ValueError: A name is taken, a list is empty, or hparam_def is given.
        """
        if hparam_def is not None:
            raise ValueError(
                f"HParams was called with hparam_def={hparam_def!r}, a protocol buffer that is "
                "gone with tf.contrib: give names and values, or call parse_json."
            )
        self._types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyper-parameter, whose type is that of the value or of a list's first element.

        Raises:
          ValueError: The name is taken, or the value is an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"HParams has {name!r} already: choose another name, or set_hparam.")
        is_list = isinstance(value, list | tuple)
        if is_list and not value:
            raise ValueError(
                f"The hyper-parameter {name!r} is an empty list, which has no type: give one "
                "element at least."
            )
        self._types[name] = (type(value[0]) if is_list else type(value), is_list)
        setattr(self, name, list(value) if is_list else value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a hyper-parameter to a value of its type.

        Raises:
          KeyError: There is no such hyper-parameter.
          ValueError: The value is of another type, or a list in place of a single value.
        """
        kind, is_list = self._type_of(name)
        if isinstance(value, list) != is_list:
            wanted = "a list" if is_list else "a single value"
            raise ValueError(f"The hyper-parameter {name!r} is {wanted}, got {value!r}.")
        new = [_cast(name, kind, item) for item in value] if is_list else _cast(name, kind, value)
        setattr(self, name, new)

    def del_hparam(self, name: str) -> None:
        """Removes a hyper-parameter, if there is one of that name."""
        if name in self._types:
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> "HParams":
        """Sets hyper-parameters from a text such as "rate=0.1,layers=[64,32],layers[0]=16".

        Raises:
          ValueError: The text cannot be read, names an unknown hyper-parameter, or gives one a
            value of another type.
        """
        position = 0
        while position < len(values.rstrip()):
            found = _ASSIGNMENT.match(values, position)
            if found is None:
                raise ValueError(
                    f"Cannot read the hyper-parameters {values!r} from {values[position:]!r} on: "
                    "write name=value, name=[value,value] or name[index]=value, with commas."
                )
            self._assign(found)
            position = found.end()
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> "HParams":
        """Sets hyper-parameters from a dict and returns itself; errors as in `set_hparam`."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, values_json: str) -> "HParams":
        """Sets hyper-parameters from a JSON object and returns itself; errors as `set_hparam`."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Returns the values as a JSON object, leaving out functions; arguments of `json.dumps`."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Returns all names and values."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or `default` if there is no hyper-parameter of that name."""
        return getattr(self, key) if key in self._types else default

    def set_model_structure(self, model_structure: Any) -> None:
        """Keeps a value for `get_model_structure`."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """Returns the value of `set_model_structure`."""
        return self._model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __repr__(self) -> str:
        return f"HParams({', '.join(f'{name}={v!r}' for name, v in self.values().items())})"

    def _type_of(self, name: str) -> tuple[type, bool]:
        if name not in self._types:
            raise KeyError(
                f"There is no hyper-parameter {name!r}: there are {sorted(self._types)}."
            )
        return self._types[name]

    def _assign(self, found: re.Match[str]) -> None:
        name, index, items = found["name"], found["index"], found["items"]
        if name not in self._types:
            raise ValueError(
                f"There is no hyper-parameter {name!r}: there are {sorted(self._types)}."
            )
        kind, is_list = self._types[name]
        if items is not None:
            self.set_hparam(name, [_read(name, kind, item) for item in items.split(",") if item])
        elif index is None:
            value = _read(name, kind, found["value"])
            self.set_hparam(name, [value] if is_list else value)
        else:
            changed = list(getattr(self, name))
            if not is_list or int(index) >= len(changed):
                raise ValueError(f"The hyper-parameter {name!r} has no element {index}.")
            changed[int(index)] = _read(name, kind, found["value"])
            self.set_hparam(name, changed)


def _read(name: str, kind: type, text: str) -> Any:
    text = text.strip()
    if issubclass(kind, bool):
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"The hyper-parameter {name!r} is true or false, got {text!r}.")
        return _BOOLEANS[text.lower()]
    if kind is type(None):
        return text
    read: Callable[[str], Any] = kind
    try:
        return read(text)
    except ValueError:
        raise ValueError(
            f"The hyper-parameter {name!r} is of type {kind.__name__}, got {text!r}."
        ) from None


def _cast(name: str, kind: type, value: Any) -> Any:
    if kind is type(None) or value is None or type(value) is kind:
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if issubclass(kind, float) and is_number:
        return kind(value)
    if issubclass(kind, int) and not issubclass(kind, bool) and is_number and value == int(value):
        return kind(value)
    if issubclass(kind, str) and isinstance(value, bytes):
        return value.decode()
    if isinstance(value, kind):
        return value
    raise ArgumentTypeError(
        f"The hyper-parameter {name!r} is of type {kind.__name__}, got {value!r}."
    )
