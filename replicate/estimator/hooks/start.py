"""StartHook: shows and saves the devices and the variables of a training run at its start.

With progress on, the chief prints devices and model table to standard error, above the bar. It
writes them to run.json in any case. A graph without towers gets a line in the log; that of a
replicated model_fn comes from `replicate_model_fn`.
"""

import os
import sys
from typing import Any, TextIO

import tensorflow as tf

from replicate.estimator.hooks.scheduled_hook import NextRun, ScheduledHook
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.estimator.run_record import Placement, placement, run_record, write_run_record
from replicate.variables.table import VariableRow, short_table, variable_notes, variable_rows

v1 = tf.compat.v1

_MOST_ROWS = 40
_LABEL_COLUMNS = 16
_COLUMNS_OF_A_FILE = 100


class StartHook(ScheduledHook):
    """Shows and saves devices and variables when the graph is complete.

    One hook serves all runs of an Estimator: it prints again only if something has changed.
    """

    def __init__(self, config: RunConfig, params: Any):
        self._config = config
        self._params = params
        self._shown = ""

    def next_run(self) -> NextRun:
        """Returns never: the hook has nothing to do at a step."""
        return NextRun()

    def begin(self) -> None:
        """Logs, prints and writes the devices and the variables of the default graph."""
        graph = v1.get_default_graph()
        rows = variable_rows(v1.trainable_variables(), variable_notes(graph))
        placed = placement(graph, rows)
        if not placed.towers:
            parts = [f"{label.capitalize()}: {text}." for label, text in placed.lines()]
            log.info("Training. %s", " ".join(parts))
        if not self._config.is_chief:
            return
        write_run_record(
            str(self._config.model_dir), run_record(placed, rows, self._config, self._params)
        )
        text = _text(placed, rows, _columns(sys.stderr))
        if self._config.progress != "off" and text != self._shown:
            print(text, file=sys.stderr, flush=True)
            self._shown = text


def _columns(stream: TextIO) -> int:
    """Returns the width of a terminal, or of lines in a file, in characters."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS_OF_A_FILE
    except (OSError, ValueError):  # Not a terminal, or not a file at all.
        return _COLUMNS_OF_A_FILE


def _text(placed: Placement, rows: list[VariableRow], columns: int) -> str:
    """Returns the devices and, if there are variables, the model table."""
    lines = [f"{label:<{_LABEL_COLUMNS}}{text}" for label, text in placed.lines()]
    return "\n".join([*lines, short_table(rows, _MOST_ROWS, columns)] if rows else lines)
