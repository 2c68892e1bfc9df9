"""Functions that changed: `round` and `cmp`, and `sys.setdefaultencoding`, which is gone.

`round(x)` becomes `old_round(x)`. `sys.setdefaultencoding("utf-8")` and the `reload(sys)` that it
needs become None: texts are texts by themselves now.
"""

from typing import Any

from fissix import fixer_base
from fissix.fixer_util import Name


class FixOldFunctions(fixer_base.BaseFix):
    """Replaces calls of these functions."""

    BM_compatible = True
    order = "pre"
    run_order = 1
    PATTERN = """
    power< name='round' trailer< '(' any* ')' > any* >
    |
    encoding=power< 'sys' trailer< '.' 'setdefaultencoding' > trailer< '(' any ')' > >
    |
    reload=power< 'reload' trailer< '(' 'sys' ')' > >
    """

    def transform(self, node: Any, results: Any) -> Any:
        """Returns the node that takes the place of a call."""
        if "name" in results:
            results["name"].replace(Name("old_round", prefix=results["name"].prefix))
            return None
        return Name("None", prefix=node.prefix)
