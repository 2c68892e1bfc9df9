"""Functions that changed: `round`, `sorted` and `sort`; `sys.setdefaultencoding`, which is gone.

`round(x)` becomes `old_round(x)`, and `sorted(x, cmp=f)` becomes `sorted(x, key=cmp_to_key(f))`.
`sys.setdefaultencoding("utf-8")` and the `reload(sys)` that it needs become None: texts are texts
by themselves now.
"""

from typing import Any

from fissix import fixer_base
from fissix.fixer_util import Call, KeywordArg, Name
from fissix.pygram import python_symbols as syms


class FixOldFunctions(fixer_base.BaseFix):
    """Replaces calls of these functions."""

    BM_compatible = True
    order = "pre"
    run_order = 1
    PATTERN = """
    argument< 'cmp' '=' compared=any >
    |
    power< any* trailer< '.' 'sort' > trailer< '(' compared=lambdef ')' > >
    |
    power< any* trailer< '.' 'sort' > trailer< '(' compared='cmp' ')' > >
    |
    power< 'sorted' trailer< '(' arglist< any ',' compared=lambdef any* > ')' > >
    |
    power< name='round' trailer< '(' any* ')' > any* >
    |
    encoding=power< 'sys' trailer< '.' 'setdefaultencoding' > trailer< '(' any ')' > >
    |
    reload=power< 'reload' trailer< '(' 'sys' ')' > >
    """

    def transform(self, node: Any, results: Any) -> Any:
        """Returns the node that takes the place of a call."""
        if "compared" in results:
            return _by_key(node, results["compared"])
        if "name" in results:
            results["name"].replace(Name("old_round", prefix=results["name"].prefix))
            return None
        return Name("None", prefix=node.prefix)


def _by_key(node: Any, function: Any) -> Any:
    """Replaces a function that compares by a key, and returns the new node of a keyword."""
    compared = function.clone()
    compared.prefix = ""
    made = Call(Name("cmp_to_key"), [compared])
    key = KeywordArg(Name("key"), made)
    if node.type == syms.argument:
        key.prefix = node.prefix
        return key
    key.prefix = function.prefix
    function.replace(key)
    return None
