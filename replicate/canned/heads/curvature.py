"""Record of a loss whose Fisher matrix is known, for optimizers of second order.

A head describes its loss in these records. An optimizer such as K-FAC registers them; neither
package imports the other.
"""

import dataclasses
from typing import Literal, TypeAlias

from replicate._types import Tensor

LossKind: TypeAlias = Literal["multi_bernoulli", "categorical", "squared_error"]
"""Distribution of the labels given the logits.

"multi_bernoulli": independent bits with the logits as log-odds. "categorical": one class, with the
logits as unnormalized log-probabilities. "squared_error": normal with the logits as mean and
variance ½ in each dimension.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class CurvatureLoss:
    """Negative log-likelihood that is a part of the training loss.

    Attributes:
      kind: Distribution of the labels.
      logits: Its natural parameters, float32 [D0, ..., DN, logits_dimension].
      weights: Weights of the examples, float32 [D0, ..., DN, 1] or, in regression, as `logits`. A
        scalar 1 if there are none. The training loss averages over all examples, not over weights.
      coefficient: Factor of the negative log-likelihood in the training loss, > 0.
      name: Name of the head; "head" if it has none. The same in all towers.
    """

    kind: LossKind
    logits: Tensor
    weights: Tensor
    coefficient: float
    name: str

    def scaled(self, factor: float) -> "CurvatureLoss":
        """Returns the record for `factor` times this loss."""
        return dataclasses.replace(self, coefficient=self.coefficient * factor)
