"""Arguments of calls, as keywords, where their order or their names are others now."""

from collections.abc import Sequence

import libcst as cst

from replicate.migrate.source import Edit, Source


def keyword_edits(
    source: Source, call: cst.Call, keywords: Sequence[tuple[str, str]]
) -> list[Edit] | None:
    """Returns the edits that give an old call its new keywords, None if it has star arguments."""
    renamed = dict(keywords)
    order = [new for _, new in keywords]
    edits = []
    for number, arg in enumerate(call.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            new = renamed.get(arg.keyword.value, arg.keyword.value)
            if new != arg.keyword.value:
                edits.append(Edit(*source.span(arg.keyword), new, counts=False))
        elif number < len(order):
            start = source.span(arg)[0]
            edits.append(Edit(start, start, f"{order[number]}=", counts=False))
    return edits
