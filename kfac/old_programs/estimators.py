"""The function of tensorflow/kfac that makes an estimator."""

from typing import Any

from kfac.estimator import FisherEstimator


def make_fisher_estimator(placement_strategy: str | None = None, **kwargs: Any) -> FisherEstimator:
    """Returns a Fisher estimator.

    Args:
      placement_strategy: None spreads the work over devices by cost, "round_robin" in turn.
      **kwargs: The other arguments of `FisherEstimator`.

    Raises:
      ValueError: The strategy is unknown, or as in `FisherEstimator`.
    """
    return FisherEstimator(placement_strategy=placement_strategy, **kwargs)
