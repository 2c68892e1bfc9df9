"""What a run was asked to do, as JSON in its model directory: flags, and what became of them.

`config.json` is that of the newest run. Where a run asks for something else than the one before it,
what was there is kept as `config-<step>.json`, after the step that had been reached with it. Files
are written at once, so that none is ever half there. `training.run` calls this in the process that
writes the checkpoints.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import flags

import replicate
from examples import terminal
from examples.model_dir import write_at_once

CONFIG_FILE = "config.json"


def record(config: replicate.RunConfig, params: Mapping[str, Any], step: int) -> None:
    """Writes the flags of this program, the params of its model, and how it runs.

    Args:
      config: Of the run; its model directory exists.
      params: Of the model_fn.
      step: The one from which training goes on; 0 if nothing was saved yet.
    """
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    settings["cluster"] = {job: len(tasks) for job, tasks in config.cluster.jobs.items()}
    found = {
        "program": terminal.program(),
        "flags": _flags(),
        "params": dict(params),
        "run_config": settings,
    }
    text = json.dumps(found, indent=2, default=str) + "\n"
    path = Path(str(config.model_dir)) / CONFIG_FILE
    kept = path.with_name(f"config-{step}.json")
    earlier = path.read_text() if path.exists() else text
    # If there is one of this step already, that of no step took its place in the meantime.
    if earlier != text and step > 0 and not kept.exists():
        write_at_once(kept, earlier)
    write_at_once(path, text)


def _flags() -> dict[str, Any]:
    """Returns the values of the flags that `--help` of this program lists, given or not."""
    known = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    return {flag.name: flag.value for flag in sorted(known, key=lambda flag: flag.name)}
