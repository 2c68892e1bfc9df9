"""Which tensors and parameters form which layer, in each tower, and which losses there are.

A model registers its layers and losses here while it is built, once per tower. Nothing is added
to the graph at that time, and nothing is kept outside of the graph: `graph_layer_collection`
hangs a collection on the graph itself. The estimator reads the finished collection.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Graph, Parameters, Scalar, Tensor, Variable
from kfac.conv_geometry import ConvGeometry, spatial_pair
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_blocks.conv import ConvKFCBasicFB
from kfac.fisher_blocks.dense import FullyConnectedKFACBasicFB
from kfac.fisher_factors.base import FisherFactor
from kfac.loss_functions import CategoricalLogitsNegativeLogProbLoss, LossFunction
from kfac.loss_table import LossTable
from kfac.reuse import VARIABLE_SCOPE, is_reuse

v1 = tf.compat.v1

APPROX_KRONECKER_NAME = "kron"

_PADDINGS = ("SAME", "VALID")


class LayerCollection:
    """The layers, parameters and losses of one model, over all its towers.

    Attributes:
      graph: The graph that the layers belong to.
      name: Used in messages only.
    """

    def __init__(self, graph: Graph = None, name: str = "LayerCollection") -> None:
        """Makes an empty collection.

        Args:
          graph: The graph of the layers; None means the current default graph.
          name: Used in messages only.
        """
        self.graph = v1.get_default_graph() if graph is None else graph
        self.name = name
        self._blocks: dict[Parameters, FisherBlock] = {}
        self._factors: dict[tuple[Callable[..., FisherFactor], Any], FisherFactor] = {}
        self._losses = LossTable()
        self._is_final = False

    # What is registered.

    @property
    def fisher_blocks(self) -> Mapping[Parameters, FisherBlock]:
        """The blocks by their parameter or tuple of parameters, in order of registration."""
        return types.MappingProxyType(self._blocks)

    @property
    def fisher_factors(self) -> Mapping[tuple[Callable[..., FisherFactor], Any], FisherFactor]:
        """The factors by (class, arguments), in the order in which they were made."""
        return types.MappingProxyType(self._factors)

    def get_blocks(self) -> tuple[FisherBlock, ...]:
        """Returns the blocks in order of registration."""
        return tuple(self._blocks.values())

    def get_factors(self) -> tuple[FisherFactor, ...]:
        """Returns the factors in the order in which they were made."""
        return tuple(self._factors.values())

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """All parameters of all layers, in order of registration."""
        return tuple(param for key in self._blocks for param in as_tuple(key))

    @property
    def losses(self) -> tuple[LossFunction, ...]:
        """All losses, tower after tower within each name."""
        return tuple(tower for loss in self._losses.entries.values() for tower in loss.towers)

    @property
    def towers_by_loss(self) -> tuple[tuple[LossFunction, ...], ...]:
        """For each loss name the losses of the towers."""
        return tuple(loss.towers for loss in self._losses.entries.values())

    @property
    def is_final(self) -> bool:
        """Whether registration is over."""
        return self._is_final

    def describe(self) -> dict[str, str]:
        """Returns for each parameter's name how it is preconditioned.

        Such as {"conv/w": "kron 26x26 (x) 16x16"}. Needs static shapes of parameters only.
        """
        return {
            param.op.name: block.describe()
            for key, block in self._blocks.items()
            for param in as_tuple(key)
        }

    # Registration of layers.

    def register_fully_connected(
        self,
        params: Parameters,
        inputs: Tensor,
        outputs: Tensor,
        *,
        approx: str | None = None,
        reuse: bool | str = VARIABLE_SCOPE,
    ) -> None:
        """Registers a dense layer, or one more tower of it.

        Args:
          params: Weight [inputs, outputs], or (weight, bias [outputs]).
          inputs: [batch, inputs].
          outputs: [batch, outputs], before the non-linearity.
          approx: "kron", or None for the same.
          reuse: True adds a tower to a registered layer, False registers a new one, AUTO_REUSE
            does what fits, VARIABLE_SCOPE goes by the flag of the current variable scope.

        Raises:
          ValueError: The approximation is unknown, `reuse` does not fit, or a parameter belongs
            to another layer. The collection is left as it was.
        """
        params = _as_key(params)
        self._check_approx(approx, params)
        block = FullyConnectedKFACBasicFB(self, params)
        self._register_block(block, inputs, outputs, reuse)

    def register_conv2d(
        self,
        params: Parameters,
        strides: Sequence[int],
        padding: str,
        inputs: Tensor,
        outputs: Tensor,
        *,
        data_format: str | None = None,
        dilations: Sequence[int] | None = None,
        approx: str | None = None,
        reuse: bool | str = VARIABLE_SCOPE,
    ) -> None:
        """Registers a convolution, or one more tower of it.

        Args:
          params: Filter [rows, columns, channels, outputs], or (filter, bias [outputs]).
          strides: (1, down, right, 1).
          padding: "SAME" or "VALID".
          inputs: [batch, height, width, channels].
          outputs: [batch, height, width, outputs], before the non-linearity.
          data_format: "NHWC", or None for the same.
          dilations: (1, down, right, 1), or None for an ordinary filter.
          approx: "kron", or None for the same.
          reuse: As in `register_fully_connected`.

        Raises:
          ValueError: As `register_fully_connected`; or strides, padding, dilations or data format
            are not among the above. The collection is left as it was.
        """
        params = _as_key(params)
        self._check_approx(approx, params)
        weight = as_tuple(params)[0]
        layer = weight.op.name
        if data_format not in {None, "NHWC"}:
            raise ValueError(
                f"Cannot register convolution {layer}: data_format={data_format!r}. Accepted is "
                "'NHWC' (channels last). Transpose the inputs, or let this layer out of K-FAC."
            )
        if not isinstance(padding, str) or padding.upper() not in _PADDINGS:
            raise ValueError(
                f"Cannot register convolution {layer}: padding={padding!r}. Accepted are 'SAME' "
                "and 'VALID'. For explicit padding use tf.pad and 'VALID'."
            )
        geometry = ConvGeometry(
            kernel=tuple(weight.shape.as_list()[:2]),
            strides=spatial_pair(strides, "strides", layer),
            padding=padding.upper(),
            dilations=spatial_pair(dilations, "dilations", layer),
        )
        self._register_block(ConvKFCBasicFB(self, params, geometry), inputs, outputs, reuse)

    def _register_block(
        self, block: FisherBlock, inputs: Tensor, outputs: Tensor, reuse: bool | str
    ) -> None:
        """Adds `block`, or a tower to its registered equal, after all checks have passed."""
        self._check_open(f"layer {block.name!r}")
        self._check_graph(f"layer {block.name!r}", inputs, outputs)
        existing = self._blocks.get(block.params)
        if is_reuse(reuse, existing is not None):
            self._check_same_layer(block, existing)
        else:
            self._check_new_layer(block, existing)
        registered = existing or self._blocks.setdefault(block.params, block)
        registered.register_additional_tower(inputs, outputs)

    def _check_same_layer(self, block: FisherBlock, existing: FisherBlock | None) -> None:
        if existing is None:
            raise ValueError(
                f"Cannot add a tower to layer {block.name!r} of {self.name}: reuse is True, and no "
                f"layer was registered with exactly the parameters {_names(block.params)}. "
                "Register it in the first tower with reuse=False, with the same parameters."
            )
        if type(existing) is not type(block) or existing.settings != block.settings:
            raise ValueError(
                f"Cannot add a tower to layer {block.name!r} of {self.name}: it was registered as "
                f"{type(existing).__name__}{existing.settings}, now as "
                f"{type(block).__name__}{block.settings}. All towers must register the same layer."
            )

    def _check_new_layer(self, block: FisherBlock, existing: FisherBlock | None) -> None:
        if existing is not None:
            raise ValueError(
                f"Cannot register layer {block.name!r}: it is already in LayerCollection "
                f"{self.name!r}. Register each layer once per tower; towers after the first need "
                "reuse=True, or a variable scope that reuses."
            )
        taken = {p.ref() for p in self.registered_variables}
        shared = [p.op.name for p in as_tuple(block.params) if p.ref() in taken]
        if shared:
            raise ValueError(
                f"Cannot register layer {block.name!r} with parameters {_names(block.params)}: "
                f"{', '.join(shared)} was already registered with another layer of {self.name}. "
                "A parameter can belong to one layer only."
            )

    # Registration of losses.

    def register_categorical_predictive_distribution(
        self,
        logits: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
    ) -> None:
        """Registers a softmax cross-entropy loss, or one more tower of it.

        Args:
          logits: [batch, classes].
          seed: Seeds the sampling of targets; None derives it from the name.
          targets: Class numbers [batch]; needed by estimation_mode="empirical" only.
          name: Needed with several towers, because it tells which losses belong together.
          coeff: Weight of this loss among several, > 0.
          reuse: As in `register_fully_connected`.

        Raises:
          ValueError: A tower is added without a name or with another coefficient, or the
            coefficient is not positive.
          KeyError: `reuse` does not fit: the name is unknown, or taken.
        """
        self._check_open(f"loss {name!r}")
        self._check_graph(f"loss {name!r}", logits)
        name = self._losses.resolve_name(name, coeff, reuse)
        loss = CategoricalLogitsNegativeLogProbLoss(logits, targets, name)
        self._losses.add(loss, coeff, seed)

    def register_softmax_cross_entropy_loss(
        self,
        logits: Tensor,
        seed: int | None = None,
        targets: Tensor | None = None,
        name: str | None = None,
        coeff: float = 1.0,
        reuse: bool | str = VARIABLE_SCOPE,
    ) -> None:
        """Registers a softmax cross-entropy loss under its other name.

        See `register_categorical_predictive_distribution` for arguments and errors.
        """
        self.register_categorical_predictive_distribution(
            logits, seed=seed, targets=targets, name=name, coeff=coeff, reuse=reuse
        )

    # What estimators need.

    def make_or_get_factor(
        self, cls: Callable[..., FisherFactor], args: tuple[Any, ...], name: str
    ) -> FisherFactor:
        """Returns the factor with this class and these arguments, made when first asked for.

        Args:
          cls: Class of the factor.
          args: Its arguments, hashable; equal arguments share one factor.
          name: Name of a new factor; a shared one keeps the name of its first layer.

        Raises:
          TypeError: The arguments are not hashable.
        """
        key = (cls, args)
        if key not in self._factors:
            self._factors[key] = cls(*args, name=name)
        return self._factors[key]

    def finalize(self) -> None:
        """Ends registration and checks that the towers agree.

        Raises:
          ValueError: Called twice, no loss or no layer is registered, or some layer or loss was
            registered by fewer towers than another.
        """
        self._check_open("anything more")
        for kind, registered in (("layer", self._blocks), ("loss", self._losses.entries)):
            if not registered:
                raise ValueError(
                    f"Cannot compute curvature: {self.name} has no registered {kind}. Register "
                    "layers with register_fully_connected and register_conv2d, and the loss with "
                    "register_categorical_predictive_distribution, while the model is built."
                )
        self._check_tower_counts()
        self._is_final = True

    def _check_tower_counts(self) -> None:
        counts = {f"layer {b.name!r}": b.num_registered_towers for b in self._blocks.values()}
        counts |= {
            f"loss {name!r}": len(loss.towers) for name, loss in self._losses.entries.items()
        }
        towers = max(counts.values())
        short = [f"{what} by {n}" for what, n in counts.items() if n != towers]
        if short:
            raise ValueError(
                f"Cannot compute curvature from {self.name}: there are {towers} towers, but these "
                f"were registered by fewer: {', '.join(short)}. Every tower must register the "
                "same layers and losses; look for conditions on the tower in the model."
            )

    def check_registration(self, variables: Sequence[Variable]) -> None:
        """Checks that exactly these variables are registered.

        Raises:
          ValueError: Some of them are not, or some others are; the message names them.
        """
        registered = {v.ref(): v for v in self.registered_variables}
        wanted = {v.ref(): v for v in variables}
        missing = [v.op.name for ref, v in wanted.items() if ref not in registered]
        if missing:
            raise ValueError(
                f"K-FAC cannot train {', '.join(missing)}: no layer registered in {self.name} has "
                "them. Register their layers with register_fully_connected or register_conv2d, or "
                "keep them out of var_list."
            )
        extra = [v.op.name for ref, v in registered.items() if ref not in wanted]
        if extra:
            raise ValueError(
                f"K-FAC was asked to train fewer variables than are registered in {self.name}: "
                f"{', '.join(extra)} would be left out. Put them into var_list, see that the loss "
                "depends on them, or do not register their layers."
            )

    def eval_losses(
        self,
        target_mode: str = "data",
        coeff_mode: str = "regular",
        sample_step: Scalar = 0,
    ) -> list[Tensor]:
        """Evaluates the losses of all towers, each on its tower's device.

        Args:
          target_mode: "data" for registered targets, "sample" for drawn ones.
          coeff_mode: Multiply by the coefficient ("regular"), by its root ("sqrt") or not ("off").
          sample_step: With "sample": another step gives other samples, int64 [].

        Returns:
          One Tensor [] per loss and tower: a sum over examples.

        Raises:
          ValueError: A mode is unknown, or targets are missing.
        """
        return self._losses.evaluate(target_mode, coeff_mode, sample_step)

    def total_loss(self, coeff_mode: str = "regular") -> Tensor:
        """Returns the sum of all losses on the registered targets; see `eval_losses`."""
        return tf.add_n(self.eval_losses("data", coeff_mode))

    def total_sampled_loss(self, coeff_mode: str = "regular", sample_step: Scalar = 0) -> Tensor:
        """Returns the sum of all losses on targets drawn from the model; see `eval_losses`."""
        return tf.add_n(self.eval_losses("sample", coeff_mode, sample_step))

    # Checks.

    def _check_open(self, what: str) -> None:
        if self._is_final:
            raise ValueError(
                f"Cannot register {what}: {self.name} is finalized, because an optimizer or "
                "estimator has built curvature from it. Register everything, in all towers, before "
                "apply_gradients, minimize or make_vars_and_create_op_thunks is called."
            )

    def _check_graph(self, what: str, *tensors: Tensor) -> None:
        if any(tensor.graph is not self.graph for tensor in tensors):
            raise ValueError(
                f"Cannot register {what}: its tensors are in another graph than {self.name}. "
                "Make one collection per graph, or use kfac.graph_layer_collection()."
            )

    def _check_approx(self, approx: str | None, params: Parameters) -> None:
        if approx not in {None, APPROX_KRONECKER_NAME}:
            raise ValueError(
                f"Cannot register layer {as_tuple(params)[0].op.name!r}: approx={approx!r}. "
                f"Accepted are {APPROX_KRONECKER_NAME!r} and None."
            )


def graph_layer_collection(name: str = "default") -> LayerCollection:
    """Returns the layer collection of the current graph, made when first asked for.

    Every tower's model function finds the same collection. It hangs on the graph, under a key
    that is not written into MetaGraphs.

    Args:
      name: One graph can have several collections, for several optimizers.
    """
    holder = v1.get_default_graph().get_collection_ref((LayerCollection, name))
    if not holder:
        holder.append(LayerCollection(name=name))
    collection: LayerCollection = holder[0]
    return collection


def _as_key(params: Parameters) -> Parameters:
    return tuple(params) if isinstance(params, (tuple, list)) else params


def _names(params: Parameters) -> str:
    return "(" + ", ".join(param.op.name for param in as_tuple(params)) + ")"
