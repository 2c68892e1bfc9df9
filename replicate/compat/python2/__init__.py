"""Programs of Python 2: recognized, and translated when they are loaded or rewritten.

The translation is fissix's, the fork of 2to3 that is kept up, with fixers of our own for what 2to3
leaves: division, and the methods of the language that changed without changing their names. What a
translated module calls is here, by the names that Python 2 had or that begin with "old_".
"""

from replicate.compat.friends.attributes import old_attribute
from replicate.compat.python2.operators import cmp, old_div, old_idiv, old_round

__all__ = ["cmp", "old_attribute", "old_div", "old_idiv", "old_round"]
