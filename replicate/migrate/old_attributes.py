"""Attributes and methods that objects of Python and its libraries lost, as they are written today.

The runner reads the names of `NAMES` by `old_attribute`, which looks at the object. Here no object
is known. A method that has one successor is called by it: `array.tobytes()`, `key in table`. All
others are read by `old_attribute` where they are likely to be those of such an object, which is
right for any other object, too.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from replicate.compat.old_libraries.attributes import NAMES, OF_PANDAS, RENAMED
from replicate.migrate.source import Edit
from replicate.migrate.tree import walk
from replicate.migrate.uses import Module

_READER = "replicate.compat.old_libraries.attributes.old_attribute"
_ITERATORS = {"iteritems": "items", "iterkeys": "keys", "itervalues": "values"}
_VIEWS = {"viewitems": "items", "viewkeys": "keys", "viewvalues": "values"}
_ITERATING = frozenset({
    "all", "any", "dict", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min",
    "set", "sorted", "sum", "tuple", "zip",
})  # fmt: skip
"""Builtins that take an iterable as well as an iterator."""
_OF_PANDAS = OF_PANDAS | {"get_value", "order", "set_value"}
"""Attributes that other objects have often, too."""
_ENCODING = re.compile(r"(utf|ascii|latin|iso|gb|cp|big|euc|shift|unicode)", re.IGNORECASE)


_Plain = (
    cst.Name
    | cst.Attribute
    | cst.BinaryOperation
    | cst.Call
    | cst.Subscript
    | cst.Tuple
    | cst.BaseString
    | cst.BaseNumber
)
"""Expressions that bind more closely than `in`."""
_Open = (
    cst.Arg
    | cst.Assert
    | cst.Assign
    | cst.BooleanOperation
    | cst.CompIf
    | cst.Element
    | cst.If
    | cst.IfExp
    | cst.Return
    | cst.While
)
"""Places of an expression that need no parentheses around `in`."""


class OldAttributes:
    """Edits for the lost attributes in a module.

    Attributes:
      edits: The edits.
      by_hand: Attributes that need the import of `old_attribute`, in a module without imports.
    """

    def __init__(
        self,
        module: Module,
        others: Sequence[Edit],
        own: frozenset[str],
        spell: Callable[[str], str],
    ) -> None:
        """Finds the attributes.

        Args:
          module: The module.
          others: Its other edits.
          own: Names of methods that the program defines.
          spell: Spells a new name.
        """
        self._module = module
        self._source = module.source
        self._others = others
        self._own = own | module.bindings.bound
        self._spell = spell
        self._names = NAMES if b"pandas" in self._source.data else NAMES - _OF_PANDAS
        self.edits: list[Edit] = []
        self.by_hand: list[cst.Attribute] = []
        if not any(name.encode() in self._source.data for name in self._names):
            return
        for node in reversed(list(walk(self._source.module))):  # Parts come before the whole.
            if isinstance(node, cst.Attribute) and node.attr.value in self._names:
                self._write(node)

    def _write(self, node: cst.Attribute) -> None:
        if self._module.bindings.meaning(node.value) is not None or self._is_bound(node):
            return
        old = node.attr.value
        parent = self._source.parents[node]
        call = parent if isinstance(parent, cst.Call) and parent.func is node else None
        if call is not None and old not in self._own and self._write_call(node, call):
            return
        if old == "tostring" or not self._is_likely(node, call):
            return
        self._read(node)

    def _is_bound(self, node: cst.Attribute) -> bool:
        """Returns True for the target of an assignment, of `del` or of a loop."""
        part: cst.CSTNode = node
        parent = self._source.parents[part]
        while isinstance(parent, cst.BaseElement | cst.Tuple | cst.List):
            part, parent = parent, self._source.parents[parent]
        return isinstance(parent, cst.Del) or part is getattr(parent, "target", None)

    def _write_call(self, node: cst.Attribute, call: cst.Call) -> bool:
        """Writes the call of a method that has one successor; returns True if it has."""
        old = node.attr.value
        name = self._source.span(node.attr)
        if old == "has_key" and len(call.args) == 1:
            self._write_in(node, call)
        elif old == "getiterator":
            self.edits.append(Edit(*name, "iter"))
        elif call.args:
            return False
        elif old == "getchildren":
            self._surround(call, "list(", (self._source.span(node.value)[1], ")"))
        elif old in _ITERATORS:
            self.edits.append(Edit(*name, _ITERATORS[old]))
            if not self._is_iterated(call):
                end = self._source.span(call)[1]
                start = self._source.span(call)[0]
                self.edits += [Edit(start, start, "iter(", False), Edit(end, end, ")", False)]
        elif old in _VIEWS or old in RENAMED:
            self.edits.append(Edit(*name, _VIEWS.get(old) or RENAMED[old]))
        else:
            return False
        return True

    def _surround(self, node: cst.CSTNode, head: str, tail: tuple[int, str]) -> None:
        """Puts a text before a node, and another in the place of its end."""
        start, end = self._source.span(node)
        self.edits += [Edit(start, start, head), Edit(tail[0], end, tail[1], counts=False)]

    def _write_in(self, node: cst.Attribute, call: cst.Call) -> None:
        """Writes `key in table` for `table.has_key(key)`."""
        start, end = self._source.span(call)
        has_edits = any(
            start <= edit.start and edit.end <= end for edit in [*self._others, *self.edits]
        )
        key = call.args[0].value
        is_plain = isinstance(key, _Plain)
        if has_edits or not is_plain or call.args[0].keyword is not None or call.args[0].star:
            self.edits.append(Edit(*self._source.span(node.attr), "__contains__"))
            return
        parent = self._source.parents[call]
        word = "in"
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
            start, end = self._source.span(parent)
            word, parent = "not in", self._source.parents[parent]
        text = f"{self._source.text_of(key)} {word} {self._source.text_of(node.value)}"
        self.edits.append(Edit(start, end, text if isinstance(parent, _Open) else f"({text})"))

    def _is_iterated(self, call: cst.Call) -> bool:
        """Returns True where all that is iterable will do, and need not be an iterator."""
        parent = self._source.parents.get(call)
        if isinstance(parent, cst.For | cst.CompFor):
            return parent.iter is call
        if not isinstance(parent, cst.Arg):
            return False
        func = self._source.parents[parent].func
        return isinstance(func, cst.Name) and func.value in _ITERATING

    def _is_likely(self, node: cst.Attribute, call: cst.Call | None) -> bool:
        """Returns True if an attribute is likely to be that of an object that lost it."""
        name = node.attr.value
        if name == "message":
            return isinstance(node.value, cst.Name) and node.value.value in self._caught(node)
        if name == "decode":
            return self._module.is_python2 and call is not None and _is_decoding(call)
        if name in _OF_PANDAS and name in self._own:
            return False
        if name == "ix":
            return isinstance(self._source.parents[node], cst.Subscript)
        if name in ("append", "sort"):
            is_read = not isinstance(self._source.parents.get(call), cst.Expr)
            has_columns = bool(call and call.args and call.args[0].keyword is None)
            return call is not None and (is_read or (name == "sort" and has_columns))
        return name not in _OF_PANDAS or call is not None

    def _caught(self, node: cst.CSTNode) -> Iterator[str]:
        """Yields the names of the errors whose handlers a node stands in."""
        while node in self._source.parents:
            node = self._source.parents[node]
            if isinstance(node, cst.ExceptHandler) and node.name is not None:
                name = node.name.name
                if isinstance(name, cst.Name):
                    yield name.value

    def _read(self, node: cst.Attribute) -> None:
        """Writes `old_attribute(value, "name")` for `value.name`."""
        try:
            reader = self._spell(_READER)
        except ValueError:
            self.by_hand.append(node)
            return
        quote = self._free_quote(node)
        tail = f", {quote}{node.attr.value}{quote})"
        self._surround(node, f"{reader}(", (self._source.span(node.value)[1], tail))

    def _free_quote(self, node: cst.CSTNode) -> str:
        """Returns the quotation mark of a text that may stand in the f-strings around a node.

        Before Python 3.12 it must be another one than theirs.
        """
        taken = ""
        while node in self._source.parents:
            node = self._source.parents[node]
            if isinstance(node, cst.FormattedString):
                taken += node.quote
        return "'" if '"' in taken else '"'


def _is_decoding(call: cst.Call) -> bool:
    """Returns True for `text.decode("utf-8")`: the text may be one that is decoded already."""
    if not call.args:
        return True
    first = call.args[0].value
    return isinstance(first, cst.SimpleString) and bool(_ENCODING.match(first.raw_value))
