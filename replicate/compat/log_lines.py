"""Log lines of a program of TensorFlow 1: each appears once on the terminal.

A record of `tf.logging` reaches TensorFlow's own handler and, by propagation, the handlers of the
root logger: those of the program, and absl's after `tf.app.run`. One of them prints it: a handler
that the program has set up, in the program's format; else TensorFlow's, as
`INFO:tensorflow:message`; else absl's. Handlers that write to files get all records.
"""

import dataclasses
import importlib
import logging
import sys
from collections.abc import Iterator
from typing import Any


def print_lines_once(logger: logging.Logger) -> None:
    """Lets TensorFlow's handler, found on its `logger`, and absl's yield to other handlers."""
    # Not imported above: absl adds a finder of modules, and imports here change nothing.
    absl_handler: Any = importlib.import_module("absl.logging").get_absl_handler()
    yielding: list[tuple[logging.Handler, logging.Handler]]
    yielding = [(absl_handler, absl_handler.python_handler)]
    own = [handler for handler in logger.handlers if isinstance(handler, logging.StreamHandler)]
    yielding += [(handler, handler) for handler in own[-1:]]  # Earlier ones are the program's.
    for handler, writer in yielding:
        handler.addFilter(_UnlessPrinted(handler, writer))


@dataclasses.dataclass(frozen=True)
class _UnlessPrinted:
    """Filter that keeps a record from the terminal if another handler prints it there.

    The handler writes by `writer`. Equal filters are added once.
    """

    handler: logging.Handler
    writer: logging.Handler

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True if the handler may have the record."""
        if not _is_on_terminal(self.writer):
            return True
        others = (each for each in _reached(record.name) if each is not self.handler)
        return not any(_prints(each, record) for each in others)


def _reached(name: str) -> Iterator[logging.Handler]:
    """Yields the handlers that records of a logger reach, as `logging` finds them."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _prints(handler: logging.Handler, record: logging.LogRecord) -> bool:
    """Returns True if a handler prints a record. Absl's, which yields to all, is none of them."""
    return (
        _is_on_terminal(handler)
        and record.levelno >= handler.level
        and bool(handler.filter(record))
    )


def _is_on_terminal(handler: logging.Handler) -> bool:
    streams = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return isinstance(handler, logging.StreamHandler) and handler.stream in streams
