"""The losses of a model by name, with one entry per tower, and their evaluation.

The formulas of losses are in `kfac.loss_functions`. Owned by the layer collection, filled by
`kfac.registration.losses`.
"""

import math
import types
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, final

import tensorflow as tf

from kfac._types import Graph, Operation, Scalar, Tensor
from kfac.linalg.tensor_ops import as_scalar
from kfac.loss_functions.base import LossFunction
from kfac.protocols import SHARED
from kfac.registration.scope import RegistrationScope, is_reuse
from kfac.registration.subgraph import SubGraph
from kfac.seeds import fresh_numbers, stateless_seed
from kfac.workers import current_workers

v1 = tf.compat.v1

_COEFFICIENTS: Mapping[str, Callable[[float], float]] = types.MappingProxyType(
    {"regular": lambda c: c, "sqrt": lambda c: c**0.5, "off": lambda _: 1.0}
)

NONE_YET = (
    "none (if each tower makes a LayerCollection of its own, use kfac.graph_layer_collection(), "
    "which is the same one in all towers)"
)
"""The list of known layers or losses in messages, if there are none."""


class LossEntry(NamedTuple):
    """One loss in all towers.

    `seed` separates its samples from those of other losses. `number` is the seed that the user
    registered, if any.
    """

    coeff: float
    seed: str
    towers: tuple[LossFunction, ...]
    number: int | None = None

    def source(self, tower: int) -> str:
        """Returns the name of one tower's draws for `stateless_seed`; differs by loss and tower.

        The towers of all workers are numbered through: they draw as those of one process do.
        """
        workers = current_workers()
        before = 0 if workers is None else workers.rank * len(self.towers)
        return f"{self.seed}/{before + tower}"


@final
class LossTable:
    """Losses by name, in order of registration."""

    def __init__(self, scope: RegistrationScope) -> None:
        self.scope = scope
        self._final_subgraph: SubGraph | None = None
        self._entries: dict[str, LossEntry] = {}
        self._unnamed: list[str] = []

    @property
    def entries(self) -> Mapping[str, LossEntry]:
        """The losses by name."""
        return types.MappingProxyType(self._entries)

    @property
    def losses(self) -> tuple[LossFunction, ...]:
        """All losses, tower after tower within each name."""
        return tuple(loss for entry in self._entries.values() for loss in entry.towers)

    @property
    def towers_by_loss(self) -> tuple[tuple[LossFunction, ...], ...]:
        """For each loss name the losses of the towers."""
        return tuple(entry.towers for entry in self._entries.values())

    @property
    def coefficients(self) -> Mapping[LossFunction, float]:
        """The coefficient of each loss in `losses`."""
        entries = self._entries.values()
        return types.MappingProxyType(
            {loss: entry.coeff for entry in entries for loss in entry.towers}
        )

    @property
    def colocation_ops(self) -> Mapping[LossFunction, Operation]:
        """The op that computes the inputs of each loss in `losses`; the loss is on its device."""
        return types.MappingProxyType(
            {loss: tf.nest.flatten(loss.inputs)[0].op for loss in self.losses}
        )

    @property
    def subgraph(self) -> SubGraph:
        """The ops that the losses depend on; one object once registration is over."""
        if self._final_subgraph is not None:
            return self._final_subgraph
        subgraph = SubGraph(tf.nest.flatten([loss.inputs for loss in self.losses]))
        if self.scope.is_closed:
            self._final_subgraph = subgraph
        return subgraph

    def resolve_name(self, name: str | None, coeff: float, reuse: bool | str) -> str:
        """Checks a registration before anything is kept, and names an unnamed loss.

        Raises:
          ValueError: A tower is added without a name or with another coefficient, or the
            coefficient is not positive.
          KeyError: The name is unknown under reuse, or taken without it.
        """
        reusing = is_reuse(reuse, name in self._entries)
        if name is None and reusing and v1.get_collection(SHARED):
            name = self._next_unnamed()
        if name is None and reusing:
            raise ValueError(
                "Cannot add a tower to a loss: reuse is True and the loss has no name, so it is "
                "unclear to which loss the tower belongs. Pass name=..., the same in all towers."
            )
        if not 0 < coeff < math.inf:
            raise ValueError(f"Cannot register loss {name!r}: coeff={coeff!r}. It must be > 0.")
        known = None if name is None else self._entries.get(name)
        if reusing and known is None:
            raise KeyError(
                f"Cannot add a tower to loss {name!r}: reuse is True and no loss of that name was "
                f"registered. Registered are: {', '.join(sorted(self._entries)) or NONE_YET}. "
                "Register it in the first tower with reuse=False, under the same name."
            )
        if not reusing and known is not None:
            raise KeyError(
                f"Cannot register loss {name!r}: there is one of that name already. Choose another "
                "name, or reuse=True to add a tower to it."
            )
        if known is not None and known.coeff != coeff:
            raise ValueError(
                f"Cannot add a tower to loss {name!r}: its coefficient was {known.coeff}, now it "
                f"is {coeff}. All towers must use the same."
            )
        return self._unused_name() if name is None else name

    def _unused_name(self) -> str:
        numbered = (f"loss_{i}" for i in range(len(self._entries) + 1))
        name = next(name for name in numbered if name not in self._entries)
        self._unnamed.append(name)
        return name

    def _next_unnamed(self) -> str | None:
        """Returns the unnamed loss that is next in a tower: the first with the fewest towers."""
        return min(self._unnamed, key=lambda name: len(self._entries[name].towers), default=None)

    def add(self, loss: LossFunction, coeff: float, seed: int | None) -> None:
        """Adds a tower under `loss.name`, after `resolve_name` has checked it.

        `seed` is that of its samples; None means the name, and the seed of the graph.

        Raises:
          ValueError: The other towers' losses are of another class.
        """
        new = LossEntry(coeff, loss.name if seed is None else str(seed), (), seed)
        known = self._entries.get(loss.name, new)
        kinds = {type(tower).__name__ for tower in known.towers}
        if not kinds <= {type(loss).__name__}:
            raise ValueError(
                f"Cannot add a tower to loss {loss.name!r}: it was registered as {kinds.pop()}, "
                f"now as {type(loss).__name__}. All towers must register the same kind of loss."
            )
        self._entries[loss.name] = known._replace(towers=(*known.towers, loss))

    def evaluate(
        self,
        target_mode: str = "data",
        coeff_mode: str = "regular",
        sample_step: Scalar | None = None,
    ) -> list[Tensor]:
        """Evaluates the losses of all towers, each on its tower's device.

        Args:
          target_mode: "data" for registered targets, "sample" for drawn ones.
          coeff_mode: Multiply by the coefficient ("regular"), by its root ("sqrt") or not ("off").
            "sqrt" takes the root of the weights of examples too.
          sample_step: Step of the draws, int64 [], for "sample": equal steps give equal samples.
            None draws anew in each run of a session; another session repeats these draws if the
            loss or the graph has a seed.

        Returns:
          One Tensor [] per loss and tower: a sum over examples.

        Raises:
          ValueError: A mode is unknown, or targets are missing.
        """
        if target_mode not in {"data", "sample"} or coeff_mode not in _COEFFICIENTS:
            raise ValueError(
                f"Cannot evaluate losses: target_mode={target_mode!r}, coeff_mode={coeff_mode!r}. "
                f"Accepted are 'data' and 'sample', and {', '.join(map(repr, _COEFFICIENTS))}."
            )
        root, is_sampled = coeff_mode == "sqrt", target_mode == "sample"
        values = []
        for entry in self._entries.values():
            scale = _COEFFICIENTS[coeff_mode](entry.coeff)
            is_fresh = is_sampled and sample_step is None
            step = fresh_numbers([], entry.number) if is_fresh else sample_step
            for tower, loss in enumerate(entry.towers):
                with v1.device(loss.device):
                    if is_sampled:
                        seed = stateless_seed(entry.source(tower), step)
                        value = loss.evaluate_on_sample(seed, root)
                    else:
                        value = loss.evaluate(root)
                    values.append(value * as_scalar(scale, value.dtype))
        return values

    def total_loss(self, coeff_mode: str = "regular") -> Tensor:
        """Returns the sum of all losses on the registered targets; see `evaluate`."""
        return tf.add_n(self.evaluate("data", coeff_mode))

    def total_sampled_loss(
        self, coeff_mode: str = "regular", sample_step: Scalar | None = None
    ) -> Tensor:
        """Returns the sum of all losses on targets drawn from the model; see `evaluate`.

        The targets are drawn anew in each run of a session, unless there is a `sample_step`.
        """
        return tf.add_n(self.evaluate("sample", coeff_mode, sample_step))


class RegisteredLosses(Protocol):
    """The part of a layer collection that readers of its losses need."""

    @property
    def graph(self) -> Graph:
        """The graph that the model belongs to."""

    @property
    def name(self) -> str:
        """Name of the collection, for messages."""

    loss_table: LossTable
    """The losses by name, with their towers and coefficients."""
