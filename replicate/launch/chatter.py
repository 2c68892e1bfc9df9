"""TensorFlow's own lines: log lines of C++ code below errors, and notes on deprecated names.

A cluster prints dozens of them per task, and they say little about the job. Errors, tracebacks of
Python and whatever a program prints itself do not belong to them.
"""

import enum
import re
from collections.abc import Iterable
from typing import final


@final
class _Message(enum.Enum):
    """The message to which the last line belongs, and how far it has come."""

    FROM_CPP = enum.auto()
    PYTHON_ERROR_IN_GRAPH = enum.auto()  # From C++, with the error of a Python function.
    ITS_TRACEBACK = enum.auto()
    AFTER_TRACEBACK = enum.auto()
    DEPRECATION = enum.auto()
    INSTRUCTIONS = enum.auto()
    ADVICE = enum.auto()


_Rules = Iterable[tuple[re.Pattern[str], _Message]]

_CPP_LOG = (
    r"(?:[IW]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IW] )\S+\.(?:cc|cpp|cu|h|inc)\S*:\d+\] "
)
_FIRST_LINES: _Rules = [
    (re.compile(_CPP_LOG + r".*: \w*(?:Error|Exception): "), _Message.PYTHON_ERROR_IN_GRAPH),
    (re.compile(_CPP_LOG), _Message.FROM_CPP),
    (re.compile(r"WARNING: All log messages before absl::InitializeLog\(\)"), _Message.FROM_CPP),
    # Logged as errors at each import of TensorFlow for GPUs.
    (re.compile(r".*\] Unable to register cu\w+ factory: "), _Message.FROM_CPP),
    (re.compile(r".*\] computation placer already registered"), _Message.FROM_CPP),
    (
        re.compile(
            r"(?:WARNING:tensorflow:|W\d{4} [\d:.]+ +\d+ \w+\.py:\d+\] )"
            r"From .* is deprecated(?: and will be removed |\. Please use )"
        ),
        _Message.DEPRECATION,
    ),
]
_CPP_CONTINUED = re.compile(r"\s+\[\[|\s*\[type\.googleapis\.com/|To enable the following instr")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):$")
_LATER_LINES: dict[_Message | None, _Rules] = {
    None: [],
    _Message.FROM_CPP: [(_CPP_CONTINUED, _Message.FROM_CPP)],
    _Message.PYTHON_ERROR_IN_GRAPH: [
        (_TRACEBACK, _Message.ITS_TRACEBACK),
        (_CPP_CONTINUED, _Message.FROM_CPP),
    ],
    _Message.ITS_TRACEBACK: [
        (re.compile(r"\s|$"), _Message.ITS_TRACEBACK),
        (re.compile(r""), _Message.AFTER_TRACEBACK),
    ],
    _Message.AFTER_TRACEBACK: [
        (re.compile(r"$"), _Message.AFTER_TRACEBACK),
        (_CPP_CONTINUED, _Message.FROM_CPP),
    ],
    _Message.DEPRECATION: [
        (re.compile(r"Instructions for updating:$"), _Message.INSTRUCTIONS),
        (re.compile(r"$"), _Message.ADVICE),
    ],
    _Message.INSTRUCTIONS: [(re.compile(r""), _Message.ADVICE)],
    _Message.ADVICE: [],
}


@final
class ChatterFilter:
    """Tells TensorFlow's own lines in the standard error of one process apart."""

    def __init__(self) -> None:
        self._message: _Message | None = None

    def is_chatter(self, line: str) -> bool:
        """Returns True for a line of TensorFlow's own. Must be called with every line, in order.

        The first line of a message of several tells what may follow. A line that does not look like
        that is the program's: too much is shown rather than too little.
        """
        rules = [*_FIRST_LINES, *_LATER_LINES[self._message]]
        self._message = next((message for rule, message in rules if rule.match(line)), None)
        return self._message is not None
