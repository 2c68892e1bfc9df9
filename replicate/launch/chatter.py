"""TensorFlow's own lines, which say little about a job, and of which a cluster prints hundreds.

They are log lines of C++ code below errors, notes on deprecated names, and errors of a lost session
while it closes, which the Estimator reports in one line. Other errors, tracebacks of Python and
whatever a program prints itself do not belong to them.
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
    LOST_SESSION = enum.auto()
    ITS_ERROR = enum.auto()
    AFTER_ERROR = enum.auto()


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
    (
        re.compile(
            r"(?:ERROR:tensorflow:|E\d{4} [\d:.]+ +\d+ \w+\.py:\d+\] )"
            r"An error occurred when attempting to close the session\."
        ),
        _Message.LOST_SESSION,
    ),
]
_CPP_CONTINUED = re.compile(r"\s+\[\[|\s*\[type\.googleapis\.com/|To enable the following instr")
_BAR = re.compile(r"=====+$")
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
    _Message.LOST_SESSION: [
        (_BAR, _Message.ITS_ERROR),
        (
            re.compile(r"$|Additional GRPC error |:UNKNOWN:Error |:\{|\s+\[\["),
            _Message.LOST_SESSION,
        ),
    ],
    _Message.ITS_ERROR: [(_BAR, _Message.AFTER_ERROR), (re.compile(r""), _Message.ITS_ERROR)],
    _Message.AFTER_ERROR: [(re.compile(r"$"), _Message.AFTER_ERROR)],
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
