"""Flags that were given and have no effect, because another flag leaves them without one.

`--damping` says nothing where K-FAC does not train. A program asks `without_effect` once for each
such condition, and ends with `refuse`, or prints what it found if it is to take the command lines
of another program. Which flag needs what is the program's to know.
"""

from collections.abc import Iterable

from absl import flags

FLAGS = flags.FLAGS


def without_effect(names: Iterable[str], *, needs: str, met: bool) -> list[str]:
    """Returns what is wrong with each of these flags that was given, in words.

    Args:
      names: Of the flags; one that was not given is never wrong.
      needs: What gives them an effect, such as "--optimizer=kfac".
      met: Whether that is so in this run; then nothing is wrong.
    """
    if met:
        return []
    given = (FLAGS[name] for name in names if FLAGS[name].present)
    return [f"{flag.serialize()} has no effect without {needs}" for flag in given]


def refuse(*found: Iterable[str]) -> None:
    """Raises ValueError if any of these results of `without_effect` is not empty."""
    wrong = [text for texts in found for text in texts]
    if wrong:
        raise ValueError(f"{'; '.join(wrong)}: leave out the one, or add the other")
