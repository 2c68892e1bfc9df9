"""Errors for copies of a model (towers, clones) that differ where they must be the same.

All texts about copies that disagree are here, whoever finds the difference: `variables` compares
the variables, `replicate` the optimizer calls and the metrics of its towers.
"""

from collections.abc import Iterable, Sequence


def different_variables(copies: Sequence[tuple[str, Iterable[str]]], difference: str) -> ValueError:
    """Returns the error for a copy that makes other variables than the first.

    `copies` are the names of the first and of the later copy, each with the variables that it made.
    The difference is the first one, as "it also makes b".
    """
    (first, of_first), (later, of_later) = copies
    return ValueError(
        f"Cannot share variables: {later} disagrees with {first}: {difference}. "
        f"{first} made [{', '.join(of_first)}]; "
        f"{later} made [{', '.join(of_later)}]. The model function must make the same "
        f"variables, in the same order, on every call; look for Python randomness, or for "
        f"code that runs on one call only."
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
