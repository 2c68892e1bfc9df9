"""Fuzzing: many wrong inputs of a kind, each drawn from a seed and its number.

Each case ends in success or in one line. With -s, a row of a table is printed for each kind of
input: cases, accepted, refused, failed, seconds, test. `--seed=S --case=N` plays case N of seed S
again, alone.
"""

import collections
import contextlib
import faulthandler
import os
import random
import sys
import threading
import time
import traceback

import pytest

MOST_FAULTS = 20
"""Places in the code that raise a wrong error, after which a kind of input ends."""

LONGEST_LINE = 2000
EXTREME_NUMBERS = (
    *(0, -1, 1, 2, 3, 7, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64),
    *(-(2**31) - 1, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e-45, 1e308, 1e400, -1e400),
)
ODD_TEXTS = (
    *("", " ", "\t", "\n", "a\nb", "\r", "0", "-", "--", ".", "..", "/", "\\", "'", '"', "{}"),
    *("null", "None", "nan", "inf", "-inf", "1e400", "0x10", "1_0", " 1 "),
    *("\uff11", "٣", "½", "1.0"),
    *("ü", "日本語", "🦆", "e\u0301", "\u202etxt", "\u00a0", "\u2028", "\ufeff", "%s%n", "${HOME}"),
    *("x" * 300, "x" * 10_000, "9" * 4300, "9" * 5000, "*", "[", "a:b", "\x7f", "\x1b[31m"),
)


class RefusedError(Exception):
    """The expected end of a case with a bad input; the text is what the user reads."""


@contextlib.contextmanager
def refusal(*errors):
    """Takes errors of these classes for refusals."""
    try:
        yield
    except errors as error:
        raise RefusedError(str(error)) from None


@contextlib.contextmanager
def time_limit(secs, name):
    """Ends the process with the stacks of all threads if the block takes longer."""

    def report():
        print(f"{name} HANGS: no end after {secs} s", file=sys.__stderr__, flush=True)
        faulthandler.dump_traceback(sys.__stderr__)
        os._exit(1)

    timer = threading.Timer(secs, report)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_line(text):
    """Raises AssertionError unless a text is one line that a user can read."""
    assert text.strip(), "no message"
    assert len(text.splitlines()) == 1, f"not one line: {text!r}"
    assert len(text) <= LONGEST_LINE, f"{len(text)} characters: {text[:300]!r}"
    assert text.isprintable(), f"not printable: {text!r}"


@pytest.fixture
def fuzz(request, seed):
    """Plays cases of a kind: `fuzz(kind, cases, play)` calls `play(draw)` with a `random.Random`.

    A case that raises RefusedError is refused; its text must be one line. A case that returns is
    accepted. Any other end is a failure, and so is a kind whose cases never end as `expected` says.
    """
    only = request.config.getoption("--case")

    def run(kind, cases, play, limit_secs=60, expected=("ok", "refused")):
        counts, faults = collections.Counter(), collections.defaultdict(list)
        began = time.monotonic()
        for number in range(cases) if only is None else [only]:
            name = f"fuzz {kind} seed={seed} case={number}"
            try:
                with time_limit(limit_secs, name):
                    counts[_outcome(play, random.Random(f"{kind} {seed} {number}"))] += 1
            except Exception as error:
                counts["failed"] += 1
                alike = faults[_place_of(error)]
                again = f"pytest '{request.node.nodeid}' -n0 -m slow --seed={seed} --case={number}"
                alike.append(f"{name} FAILED: {again}\n{_told(error)}")
                if len(alike) == 1:
                    print(*alike, flush=True)
                if len(faults) == MOST_FAULTS:
                    break
        seconds = time.monotonic() - began
        print(f"\n{_row(kind, counts, seconds, request.node)}", flush=True)
        if faults:
            texts = (f"{alike[0]}\n({len(alike)} such cases)" for alike in faults.values())
            pytest.fail("\n\n".join(texts), pytrace=False)
        if only is None:
            assert not [outcome for outcome in expected if not counts[outcome]]

    return run


def _row(kind, counts, seconds, test):
    """Returns the row of a kind in the table of docs/explanations/reliability_measured.md."""
    ends = (f"{counts[end]:,}" for end in ("ok", "refused", "failed"))
    name = f"`{test.path.name}::{test.name}`"
    return f"| {' | '.join((kind, f'{counts.total():,}', *ends, f'{seconds:.0f}', name))} |"


def _outcome(play, draw):
    try:
        play(draw)
    except RefusedError as error:
        check_line(str(error))
        return "refused"
    return "ok"


def _place_of(error):
    """Returns the class of an error and the place in the code that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno


def _told(error):
    """Returns an error with the end of its traceback, shortened."""
    lines = traceback.format_exception(error, limit=-6, chain=False)
    return "".join(line if len(line) < 700 else f"{line[:700]}…\n" for line in lines)


class Damage:
    """Changes of bytes, files, texts and JSON values, drawn from a `random.Random`."""

    odd_texts = ODD_TEXTS
    extreme_numbers = EXTREME_NUMBERS

    def bytes(self, draw, content):
        """Returns a content with one to three changes."""
        changed = bytearray(content)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            draw.choice(_BYTE_CHANGES)(draw, changed)
        return bytes(changed)

    def path(self, draw, path):
        """Puts a directory, a link to nowhere or to itself, or nothing in the place of a file."""
        change = draw.choice(("directory", "link", "nothing"))
        if path.is_symlink() or path.is_file():
            path.unlink()
            if change == "link":
                path.symlink_to(draw.choice(("/absent/file", path.name)))
        if change == "directory":
            path.mkdir(exist_ok=True)
            if draw.random() < 0.3:
                (path / "inside").write_text("something")

    def value(self, draw, value):
        """Returns a JSON value in which one part, or all, has become another type or an extreme."""
        if isinstance(value, dict) and value and draw.random() < 0.8:
            return self._dict(draw, value)
        if isinstance(value, list) and value and draw.random() < 0.8:
            return self._list(draw, value)
        if isinstance(value, str) and draw.random() < 0.6:
            return self.text(draw, value)
        if isinstance(value, int | float) and draw.random() < 0.4:
            return draw.choice(EXTREME_NUMBERS)
        return self.anything(draw)

    def _dict(self, draw, value):
        key = draw.choice(sorted(value))
        rest = {name: part for name, part in value.items() if name != key}
        changed = {
            "without": rest,
            "renamed": {**rest, self.text(draw, key): value[key]},
            "more": {**value, draw.choice(ODD_TEXTS): self.anything(draw)},
        }
        change = draw.choice((*changed, *["inside"] * 7))
        return (
            changed[change] if change in changed else {**value, key: self.value(draw, value[key])}
        )

    def _list(self, draw, value):
        index = draw.randrange(len(value))
        before, after = value[:index], value[index + 1 :]
        change = draw.random()
        if change < 0.1:
            return before + after
        if change < 0.2:
            return [*value, value[index]]
        return [*before, self.value(draw, value[index]), *after]

    def text(self, draw, text):
        """Returns another text: odd, or with one change."""
        if not text or draw.random() < 0.3:
            return draw.choice(ODD_TEXTS)
        place = draw.randrange(len(text) + 1)
        inserted = draw.choice((*ODD_TEXTS, chr(draw.randrange(1, 0xD800)), "\0", "\ud800"))
        left_out = draw.choice((0, 0, 1, len(text)))
        return text[:place] + inserted + text[place + left_out :]

    def anything(self, draw):
        """Returns any JSON value."""
        return draw.choice(
            (
                *(None, True, False, [], {}, [[]], [{}], {"": None}),
                draw.choice(EXTREME_NUMBERS),
                draw.choice(ODD_TEXTS),
                [draw.choice(ODD_TEXTS), draw.choice(EXTREME_NUMBERS)],
                {draw.choice(ODD_TEXTS): draw.choice(EXTREME_NUMBERS)},
            )
        )


def _place(draw, content):
    """Returns a position, often near the beginning or the end."""
    size = len(content)
    near = min(size, draw.choice((4, 16, 64, size)))
    distance = draw.randrange(near) if near else 0
    return distance if draw.random() < 0.5 else max(0, size - 1 - distance)


def _flip(draw, content):
    if content:
        content[_place(draw, content)] ^= 1 << draw.randrange(8)


def _overwrite(draw, content):
    start, count = _place(draw, content), draw.choice((1, 2, 4, 8, 64))
    end = min(len(content), start + count)
    filling = draw.choice((b"\x00", b"\xff", b"\x80", None))
    content[start:end] = draw.randbytes(end - start) if filling is None else filling * (end - start)


def _cut(draw, content):
    lengths = (0, 1, 2, 7, 8, 47, 48, len(content) // 2, len(content) - 1, len(content) - 8)
    del content[max(0, draw.choice((*lengths, _place(draw, content)))) :]


def _cut_head(draw, content):
    del content[: draw.choice((1, 4, 8, 100))]


def _insert(draw, content):
    place = _place(draw, content)
    content[place:place] = draw.choice((b"\0", b"\n", b"{", draw.randbytes(9), b"\xff" * 100))


def _append(draw, content):
    content += draw.choice((b"\0", b"\n", b"garbage", bytes(content[:100]), bytes(5000)))


def _repeat(draw, content):
    start = _place(draw, content)
    part = content[start : start + draw.choice((1, 8, 100))]
    content[start:start] = part


def _swap(draw, content):
    first, second = sorted((_place(draw, content), _place(draw, content)))
    count = min(draw.choice((1, 8, 64)), second - first, len(content) - second)
    one, other = content[first : first + count], content[second : second + count]
    content[first : first + count], content[second : second + count] = other, one


def _replace_all(draw, content):
    content[:] = draw.choice(
        (b"", b"\0", b"\n", bytes(100), b"garbage", "ü{".encode(), draw.randbytes(300))
    )


_BYTE_CHANGES = (
    *(_flip, _flip, _flip, _flip, _overwrite, _overwrite, _cut, _cut),
    *(_cut_head, _insert, _append, _repeat, _swap, _replace_all),
)


@pytest.fixture
def damage():
    """Changes of bytes, files, texts and JSON values."""
    return Damage()


@pytest.fixture
def refused():
    """The exception of a refused case: `raise refused(line)`."""
    return RefusedError


@pytest.fixture
def refuses():
    """A block whose errors of given classes are refusals: `with refuses(ValueError): …`."""
    return refusal
