"""Division: `a / b` becomes `old_div(a, b)`, and `a /= b` becomes `a = old_idiv(a, b)`.

A division by or of a number with a point stays. So does that of a target with a call, such as
`f(x)[0] /= 2`: the call would be made twice.
"""

from typing import Any

from fissix import fixer_base
from fissix.fixer_util import Call, Comma, Name
from fissix.pgen2 import token
from fissix.pygram import python_symbols as syms
from fissix.pytree import Leaf, Node

_CALLS = (syms.atom, syms.power, syms.trailer)


class FixDivision(fixer_base.BaseFix):
    """Divides as Python 2 did."""

    BM_compatible = False
    PATTERN = "term | expr_stmt"
    run_order = 9

    def match(self, node: Any) -> Any:
        """Returns a true value for a division."""
        signs = ("/",) if node.type == syms.term else ("/=",)
        is_kind = node.type in (syms.term, syms.expr_stmt)
        found = is_kind and any(
            child.type == token.SLASH if signs == ("/",) else child.type == token.SLASHEQUAL
            for child in node.children
        )
        return {"node": node} if found else False

    def transform(self, node: Any, results: Any) -> Any:
        """Returns the node that takes the place of a division."""
        del results
        return _product(node) if node.type == syms.term else _assignment(node)


def _product(node: Any) -> Any:
    """Folds the factors of a product from the left."""
    prefix = node.prefix
    first, *rest = [each.clone() for each in node.children]
    left = first
    left.prefix = ""
    for sign, right in zip(rest[::2], rest[1::2], strict=True):
        if sign.type == token.SLASH and not (_has_point(left) or _has_point(right)):
            right.prefix = " " if not right.prefix.strip() else right.prefix
            left = _call("old_div", left, right)
        elif left.type == syms.term:
            left.append_child(sign)
            left.append_child(right)
        else:
            left = Node(syms.term, [left, sign, right])
    left.prefix = prefix
    return left


def _assignment(node: Any) -> Any:
    target, _, value = [each.clone() for each in node.children]
    if _has_point(value) or _has_call(target):
        return None
    again, prefix = target.clone(), node.prefix
    again.prefix = ""
    value.prefix = " "
    call = _call("old_idiv", again, value)
    call.prefix = " "
    target.prefix = prefix
    return Node(syms.expr_stmt, [target, Leaf(token.EQUAL, "=", prefix=" "), call])


def _call(name: str, *parts: Any) -> Any:
    first, second = parts
    return Call(Name(name), [first, Comma(), second])


def _has_point(node: Any) -> bool:
    """Returns True for a number with a point or an exponent, and for float(…)."""
    if node.type == token.NUMBER:
        text = node.value.lower()
        return not text.startswith("0x") and any(each in text for each in ".ej")
    is_call = node.type == syms.power and len(node.children) == 2
    return is_call and str(node.children[0]).strip() == "float"


def _has_call(node: Any) -> bool:
    return any(
        each.type == syms.trailer and each.children[0].type == token.LPAR
        for each in node.pre_order()
        if each.type in _CALLS
    )
