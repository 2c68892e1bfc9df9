"""Programs of Python 2: recognized, and translated when they are loaded or rewritten.

The translation is fissix's, the fork of 2to3 that is kept up, with fixers of our own for what 2to3
leaves: division, and the functions that changed without changing their names. What a translated
module calls is here, by the names that Python 2 had or that begin with "old_".
"""

from replicate.compat.python2.operators import (
    cmp,
    cmp_to_key,
    intern,
    old_div,
    old_idiv,
    old_round,
    reduce,
    reload,
)

__all__ = [
    "cmp",
    "cmp_to_key",
    "intern",
    "old_div",
    "old_idiv",
    "old_round",
    "reduce",
    "reload",
]
