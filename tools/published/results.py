"""Numbers that a program prints: what it learnt."""

import itertools
import re

_PASSING = re.compile(r"^.*\bstep (\d+)(?:/(?!\1\b)\d+)? .*\bstep/s\b.*$\n?", re.MULTILINE)


def results_of(pattern: str, text: str) -> tuple[float, ...]:
    """Returns the numbers that a pattern finds, each once where log handlers repeat it.

    Lines of progress before the last step are left out: they depend on how quick the machine is.
    They count if there is nothing else.
    """
    flags = re.MULTILINE | re.IGNORECASE
    found = re.findall(pattern, _PASSING.sub("", text), flags) or re.findall(pattern, text, flags)
    return tuple(number for number, _ in itertools.groupby(map(float, found)))
