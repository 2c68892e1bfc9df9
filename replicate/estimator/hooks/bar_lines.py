"""Log lines on the terminal of a progress bar: the bar leaves its line before one is printed."""

import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


class ClearedForLines(logging.Filter):
    """Filter of log handlers that keeps all records, and clears the bar before each.

    The bar stands on an unfinished line, to which a record would be added. The bar's next update
    draws it again below the record.
    """

    def __init__(self, bar: Any):
        """Puts the filter on the handlers that print on a terminal, until `detach` is called.

        Args:
          bar: A tqdm bar.
        """
        super().__init__()
        self._bar = bar
        self._handlers = [handler for handler in _handlers() if _is_on_terminal(handler)]
        for handler in self._handlers:
            handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Clears the bar."""
        del record
        self._bar.clear()
        return True

    def detach(self) -> None:
        """Takes the filter from the handlers."""
        for handler in self._handlers:
            handler.removeFilter(self)
        self._handlers = []


def _handlers() -> Iterator[logging.Handler]:
    """Yields the handlers that records of TensorFlow's logger, and of other modules, reach."""
    yield from tf.get_logger().handlers
    yield from logging.getLogger().handlers


def _is_on_terminal(handler: logging.Handler) -> bool:
    writer = getattr(handler, "python_handler", handler)  # absl's handler writes by another one.
    stream = getattr(writer, "stream", None)
    return stream is not None and stream.isatty()
