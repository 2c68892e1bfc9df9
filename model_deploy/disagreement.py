"""Errors for copies of a model (towers, clones) that differ where they must be the same.

All texts about copies that disagree are here, whoever finds the difference: `variables` compares
the variables, `replicate` the optimizer calls and the metrics of its towers.
"""

import enum
from collections.abc import Iterable, Sequence


class Remedy(enum.Enum):
    """Sentences for the ways in which the variables of a copy can differ from those of the first.

    Each tells what to mend in the model function.
    """

    MAKE_IT_AT_FIRST = (
        "Make it on every call of the model function, the first one, too: look for an `if` on "
        "Python state, such as a counter of calls."
    )
    MAKE_IT_AGAIN = (
        "Make it on every call of the model function: look for a layer or variable that is kept "
        "between calls (in a global, an attribute, a cache), or for code that runs once only."
    )
    KEEP_THE_NAME = (
        "Give it the same name on every call of the model function, not one from a counter, a "
        "random number or a global; if it is a further variable, make it on every call."
    )
    KEEP_THE_SHAPE = (
        "Give it the same shape on every call of the model function: each copy gets a part of the "
        "batch, so no shape may depend on the number of rows, nor on a counter or random number."
    )
    KEEP_THE_TYPE = (
        "Give it the same dtype on every call of the model function: name the dtype, or start from "
        "values of one type."
    )
    KEEP_THE_ORDER = (
        "Make the variables in the same order on every call of the model function, and leave none "
        "out: look for a loop over a set, for random choices, or for an `if` on Python state."
    )


def different_variables(
    copies: Sequence[tuple[str, Iterable[str]]], difference: str, remedy: Remedy
) -> ValueError:
    """Returns the error for a copy that makes other variables than the first.

    `copies` are the names of the first and of the later copy, each with the variables that it made.
    The difference is the first one, as "it also makes b".
    """
    (first, of_first), (later, of_later) = copies
    return ValueError(
        f"Cannot share variables: {later} disagrees with {first}: {difference}. "
        f"{first} made [{', '.join(of_first)}]; "
        f"{later} made [{', '.join(of_later)}]. {remedy.value}"
    )


def different_optimizer_calls(counts: Sequence[int]) -> ValueError:
    """Returns the error for towers that made different numbers of optimizer calls."""
    found = ", ".join(f"tower {index} made {count}" for index, count in enumerate(counts))
    return ValueError(
        f"Towers disagree: each call of model_fn was supposed to make the same optimizer calls "
        f"(minimize or apply_gradients), but {found}. Look for an `if` on Python state, or for "
        f"randomness, around an optimizer in model_fn."
    )


def different_metrics(what: str, found: Sequence[Sequence[str]]) -> ValueError:
    """Returns the error for towers that made different metrics.

    `found` has a list of texts for each tower, of which one differs from the first. `what` they are
    is such as "metrics".
    """
    expected = found[0]
    index = next(index for index, each in enumerate(found) if each != expected)
    return ValueError(
        f"Different eval_metric_ops across towers. The {what} of tower 0 are "
        f"[{', '.join(expected)}], but those of tower {index} are [{', '.join(found[index])}]. "
        "Each call of model_fn must make the same metrics."
    )
