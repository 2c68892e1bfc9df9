"""Lines that the image classifier prints in training: its size, and a line every few steps.

The lines go to standard output, one per event, for a terminal and a log file alike. Curves are
`summaries.py`'s.
"""

import time
from typing import Any

import tensorflow as tf

import kfac
from examples import cli

v1 = tf.compat.v1
Tensor = Any


class StepLines(v1.train.SessionRunHook):
    """Prints the size of the model, and then step, loss, learning rate and speed of some steps."""

    def __init__(
        self, step: Tensor, loss: Tensor, learning_rate: Tensor, every_steps: int, rows: int
    ):
        """Takes what to print: the global step after the update, the loss and the learning rate."""
        self._fetches = {"step": step, "loss": loss, "rate": learning_rate}
        self._every_steps = every_steps
        self._rows = rows
        self._steps = 0
        self._shown_time = 0.0

    def begin(self) -> None:
        """Prints the size of the model, and K-FAC's blocks if it trains."""
        variables = v1.trainable_variables()
        cli.show("model", size(variables))
        blocks = kfac.graph_layer_collection().describe()
        if blocks:
            cli.show("K-FAC", f"{len(blocks)} of {len(variables)} variables are in blocks")

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the count and the clock."""
        del session, coord
        self._steps, self._shown_time = 0, time.monotonic()

    def before_run(self, run_context: Any) -> Any:
        """Asks for the numbers if this step will have a line."""
        del run_context
        self._steps += 1
        if self._steps % self._every_steps:
            return None
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Prints a line if the numbers were asked for."""
        del run_context
        found = run_values.results
        if found is None:
            return
        seconds = max(time.monotonic() - self._shown_time, 1e-9) / self._every_steps
        cli.show(
            f"step {found['step']}",
            f"loss {found['loss']:.4f}   rate {found['rate']:.3g}   {seconds:.3f} s/step   "
            f"{self._rows / seconds:,.0f} images/s",
        )
        self._shown_time = time.monotonic()


def size(variables: list[Any]) -> str:
    """Returns how many variables and parameters there are, and the memory that they take."""
    parameters = sum(variable.shape.num_elements() for variable in variables)
    taken = sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)
    return f"{len(variables)} variables, {parameters:,} parameters, {taken / 2**20:.2f} MiB"
