"""Several towers: replicate_model_fn around model_fns, TowerOptimizer around optimizers.

Canned estimators and TPUEstimator get the argument `devices` in its place. A model_fn that is
replicated already, and an optimizer that is wrapped already, stay.
"""

import re
from collections.abc import Iterator

import libcst as cst

from replicate.migrate.names import look_up, place_of
from replicate.migrate.source import Edit
from replicate.migrate.spelling import Speller
from replicate.migrate.uses import Module

WRAP_BY_HAND = (
    "With towers: put replicate.TowerOptimizer around it, and not around the optimizer in it."
)
_OPTIMIZER = re.compile(
    r"tf\.train\.\w*Optimizer|kfac\.(\w+\.)*\w+Opt(imizer)?"
    r"|replicate\.compat\.contrib\.opt\.\w+Optimizer"
)
_AROUND_OTHERS = re.compile(r".*\b(SyncReplicas|MovingAverage|ModelAverage)Optimizer")
_WRAPPERS = ("replicate.TowerOptimizer", "replicate.tpu.CrossShardOptimizer")
_WITH_DEVICES = re.compile(
    r"replicate\.(v1\.)?((DNN|Linear|Baseline|DNNLinearCombined)(Classifier|Regressor|Estimator)"
    r"|tpu\.TPUEstimator)"
)
_ESTIMATOR = "replicate.Estimator"
_REPLICATED = "replicate.replicate_model_fn"


class Towers:
    """Calls of a module that several towers change.

    Attributes:
      by_hand: Wrappers of other optimizers, which the user has to arrange.
    """

    def __init__(self, module: Module) -> None:
        self._source = module.source
        self._bindings = module.bindings
        self._classes: set[str] = set()
        finder = _Calls()
        module.source.module.visit(finder)
        for definition in finder.classes:
            if any(self._is_optimizer(base.value) for base in definition.bases):
                self._classes.add(definition.name.value)
        self._calls = finder.calls
        self.by_hand = [call for call in self._calls if self._holds_a_name(call)]

    def edits(self, speller: Speller) -> Iterator[Edit]:
        """Yields the edits."""
        names = {call: self._new_name(call.func) for call in self._calls}
        is_replicated = _REPLICATED in names.values()
        for call, name in names.items():
            if self._is_optimizer(call.func) and not self.by_hand and not self._is_inside(call):
                lazy = "lambda: " if name.startswith("kfac.") else ""
                new = self._spelled(speller, "replicate.TowerOptimizer", call)
                yield from self._around(call, f"{new}({lazy}", ")")
            elif name == _ESTIMATOR and not is_replicated:
                model_fn = _argument(call, "model_fn", 0)
                if model_fn is not None:
                    new = self._spelled(speller, _REPLICATED, call)
                    yield from self._around(model_fn, f"{new}(", ', uneven="weighted")')
            elif _WITH_DEVICES.fullmatch(name) and _argument(call, "devices", None) is None:
                devices = self._spelled(speller, "model_deploy.local_devices", call)
                yield from self._with_argument(call, f"devices={devices}()")

    def _spelled(self, speller: Speller, new: str, call: cst.Call) -> str:
        meaning = self._bindings.meaning(call.func)
        return speller.spell(new, meaning.origin if meaning is not None else None)

    def _new_name(self, node: cst.CSTNode) -> str:
        """Returns the new name of what is called, "" if it is unknown."""
        meaning = self._bindings.meaning(node)
        if meaning is None:
            return ""
        place = place_of(meaning.name)
        found = look_up(place) if place is not None else None
        if place is None or found is None:
            return meaning.name if place is None else place.path
        return f"{found.new}{place.path[len(found.old) :]}"

    def _is_optimizer(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Name) and node.value in self._classes:
            return True
        return _OPTIMIZER.fullmatch(self._new_name(node)) is not None

    def _is_inside(self, call: cst.Call) -> bool:
        """Returns True for an optimizer in the call of another one, or of an estimator."""
        node: cst.CSTNode = call
        while node in self._source.parents and not isinstance(node, cst.BaseSmallStatement):
            node = self._source.parents[node]
            if isinstance(node, cst.Call):
                name = self._new_name(node.func)
                inside = name in _WRAPPERS or _WITH_DEVICES.fullmatch(name) is not None
                if inside or self._is_optimizer(node.func):
                    return True
        return False

    def _holds_a_name(self, call: cst.Call) -> bool:
        """Returns True for a wrapper around an optimizer that was made elsewhere."""
        name = self._new_name(call.func)
        if not _AROUND_OTHERS.fullmatch(name) or self._is_inside(call):
            return False
        inner = _argument(call, "opt", 0)
        return not (isinstance(inner, cst.Call) and self._is_optimizer(inner.func))

    def _around(self, node: cst.CSTNode, before: str, after: str) -> Iterator[Edit]:
        start, end = self._source.span(node)
        yield Edit(start, start, before)
        yield Edit(end, end, after, counts=False)

    def _with_argument(self, call: cst.Call, text: str) -> Iterator[Edit]:
        if not call.args:
            end = self._source.span(call)[1] - 1
            yield Edit(end, end, text)
            return
        last = call.args[-1]
        start, end = self._source.span(last.value)
        begin = self._source.start_of_line(start)
        head = self._source.data[begin : self._source.span(last)[0]].decode()
        gap = " " if head.strip() else f"{self._source.newline}{head}"
        yield Edit(end, end, f",{gap}{text}")


def _argument(call: cst.Call, name: str, position: int | None) -> cst.BaseExpression | None:
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    if position is not None and len(call.args) > position:
        first = call.args[position]
        if first.keyword is None and not first.star:
            return first.value
    return None


class _Calls(cst.CSTVisitor):
    """Collects calls and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[cst.Call] = []
        self.classes: list[cst.ClassDef] = []

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        self.calls.append(node)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802
        self.classes.append(node)
