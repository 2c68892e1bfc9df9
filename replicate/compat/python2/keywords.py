"""Names that became keywords: `async` and `await` in Python 3.7."""

import io
import tokenize

_KEYWORDS = ("async", "await")
_AFTER_ASYNC = frozenset({"def", "for", "with"})


def without_new_keywords(text: str) -> str | None:
    """Returns a source whose names `async` and `await` have a "_" at their end.

    Those are names of arguments and variables of the program's own, at calls and definitions alike.

    Returns:
      The source, None if it has no such names.
    """
    if not any(each in text for each in _KEYWORDS):
        return None
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    lines = text.splitlines(keepends=True)
    found = [
        token
        for token, after in zip(tokens, [*tokens[1:], None], strict=True)
        if token.string in _KEYWORDS and not (after and after.string in _AFTER_ASYNC)
    ]
    for token in reversed(found):
        row, end = token.end
        lines[row - 1] = f"{lines[row - 1][:end]}_{lines[row - 1][end:]}"
    return "".join(lines) if found else None
