"""Settings of boosted trees, checked once and handed to all parts of the model."""

import dataclasses
import math
import numbers
from typing import Any

PRUNING_MODES = ("none", "pre", "post")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeSettings:
    """Settings of the ensemble and its growth, as `BoostedTreesClassifier` takes them.

    Attributes:
      n_batches_per_layer: Batches whose statistics decide on the splits of a layer, ≥ 1.
      n_trees: Trees after which training stops, ≥ 1.
      max_depth: Layers of splits in a tree, ≥ 1.
      learning_rate: Factor of the values of new leaves, > 0.
      l1: Penalty of a leaf's absolute value, ≥ 0. Without effect if there are several logits.
      l2: Penalty of a leaf's squared value, ≥ 0.
      tree_complexity: Gain that a split must exceed not to be pruned, ≥ 0.
      min_node_weight: Smallest norm of the Hessian of a node that is split, ≥ 0.
      center_bias: True to fit the value of the first root before the first split.
      pruning_mode: "none", "pre" or "post".
      quantile_sketch_epsilon: Share of the weight between two quantiles, in (0, 1].
      train_in_memory: True if every batch is the whole data, in the same order.
    """

    n_batches_per_layer: int
    n_trees: int
    max_depth: int
    learning_rate: float
    l1: float
    l2: float
    tree_complexity: float
    min_node_weight: float
    center_bias: bool
    pruning_mode: str
    quantile_sketch_epsilon: float
    train_in_memory: bool = False

    def __post_init__(self) -> None:
        """Checks all settings.

        Raises:
          TypeError: A setting is no number.
          ValueError: A setting is out of range, or does not go with another.
        """
        for name in ("n_batches_per_layer", "n_trees", "max_depth"):
            _check_count(name, getattr(self, name))
        for name in ("learning_rate", "quantile_sketch_epsilon"):
            _check_number(name, getattr(self, name), positive=True)
        for name in ("l1", "l2", "tree_complexity", "min_node_weight"):
            _check_number(_ARGUMENTS.get(name, name), getattr(self, name), positive=False)
        if self.quantile_sketch_epsilon > 1:
            raise ValueError(
                "quantile_sketch_epsilon must be in (0, 1], a share of the examples, got "
                f"{self.quantile_sketch_epsilon!r}."
            )
        self._check_pruning()
        if self.train_in_memory and self.n_batches_per_layer != 1:
            raise ValueError(
                "train_in_memory takes the whole data as one batch, so n_batches_per_layer must be "
                f"1, got {self.n_batches_per_layer}. Pass 1, or leave train_in_memory out."
            )

    def _check_pruning(self) -> None:
        if self.pruning_mode not in PRUNING_MODES:
            raise ValueError(
                f"pruning_mode must be one of {list(PRUNING_MODES)}, got {self.pruning_mode!r}."
            )
        if (self.pruning_mode == "none") == (self.tree_complexity > 0):
            raise ValueError(
                "tree_complexity must be positive with pruning, and 0 without, got "
                f"tree_complexity={self.tree_complexity!r} with pruning_mode="
                f"{self.pruning_mode!r}. Without pruning, the complexity would have no effect."
            )

    @property
    def num_quantiles(self) -> int:
        """Buckets of a numeric feature, 1 / quantile_sketch_epsilon."""
        return int(1.0 / self.quantile_sketch_epsilon)


_ARGUMENTS = {"l1": "l1_regularization", "l2": "l2_regularization"}


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an int, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}.")


def _check_number(name: str, value: Any, positive: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        raise ValueError(f"{name} must be {'positive' if positive else '>= 0'}, got {value!r}.")
