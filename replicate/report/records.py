"""Records: what the files of a model directory say about its newest run, beside the curves.

Reads config.json of the example programs and run.json of `replicate.Estimator`. Both may be
missing, damaged, or written by another program: everything becomes short text, and a note says what
is missing.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from replicate.links import leads_out

CONFIG_FILE = "config.json"
RUN_FILE = "run.json"

_NOT_SETTINGS = ("started", "devices", "variables", "environment")
_COLUMNS = ("variable", "shape", "dtype", "parameters", "device", "note")
_LONGEST = 200
_UNKNOWN = "-"


class RunRecord(NamedTuple):
    """Description of a run, as text.

    Attributes:
      started: Time of the start; "" if it is unknown.
      settings: Section ("flags", "params", "run_config") -> name -> value.
      devices: Name -> value, such as "towers" -> "/device:CPU:0 /device:CPU:1".
      environment: Name -> value, such as "tensorflow" -> "2.21.0".
      variables: The model table: a mapping for each variable, with the keys variable, shape,
        dtype, parameters, device and note.
      num_parameters: Sum over the variables.
      num_towers: Number of towers; 0 if it is unknown.
      notes: Sentences about missing or damaged files.
    """

    started: str
    settings: Mapping[str, Mapping[str, str]]
    devices: Mapping[str, str]
    environment: Mapping[str, str]
    variables: list[dict[str, str]]
    num_parameters: int
    num_towers: int
    notes: list[str]


def read_record(folder: Path) -> RunRecord:
    """Reads the files of a model directory; never fails."""
    notes: list[str] = []
    config = _read(folder, CONFIG_FILE, "the example programs write it", notes)
    run = _read(folder, RUN_FILE, "Estimator.train writes it", notes)
    described = {name: value for name, value in run.items() if name not in _NOT_SETTINGS}
    found = [row for row in _items(run.get("variables")) if isinstance(row, dict)]
    devices = _mapping(run.get("devices"))
    towers = len(_items(devices.get("towers"))) or 1
    return RunRecord(
        _text(run.get("started", "")),
        _sections({**config, **described}),
        _devices(devices),
        {name: _text(value) for name, value in _mapping(run.get("environment")).items()},
        [{key: _cell(row.get(key)) for key in _COLUMNS} for row in found],
        sum(_number(row.get("parameters")) for row in found),
        towers if run else 0,
        notes,
    )


def _read(folder: Path, name: str, origin: str, notes: list[str]) -> dict[str, Any]:
    """Returns the contents of a JSON file; {} and a note if they cannot be had."""
    path = folder / name
    if leads_out(path, folder):
        notes.append(f"{name} is a link out of this directory, and is not read.")
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        notes.append(f"There is no {path.name} in this directory ({origin}).")
        return {}
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{path.name} cannot be read: {type(error).__name__}.")
        return {}
    if not isinstance(found, dict):
        notes.append(f"{path.name} holds {type(found).__name__}, not an object.")
        return {}
    return found


def _sections(found: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Returns settings by section; what is not in one is in the section "run"."""
    sections: dict[str, dict[str, str]] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            if value:
                sections[name] = {key: _text(item) for key, item in value.items()}
        else:
            sections.setdefault("run", {})[name] = _text(value)
    return sections


def _devices(found: Mapping[str, Any]) -> dict[str, str]:
    choice = "TensorFlow's choice"
    texts = {
        name: " ".join(_text(item) or choice for item in _items(value)) or choice
        if isinstance(value, list)
        else _text(value) or choice
        for name, value in found.items()
    }
    return {("variables on" if name == "variables" else name): t for name, t in texts.items()}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return _text(value or _UNKNOWN)


def _text(value: Any) -> str:
    """Returns a short text for a value of JSON, as Python would print it."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
