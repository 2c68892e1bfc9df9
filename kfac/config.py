"""Settings of one layer collection: how curvature is averaged and inverted.

A frozen value that is handed to every factor and block. No setting is process-wide, so two
collections in one program can differ. The optimizer's settings are elsewhere.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.
  Grosse & Martens (2016), arXiv:1602.01407, §3.
"""

import dataclasses

import tensorflow as tf

from kfac._types import DType
from kfac.arguments import check_choice, check_number, check_period

CONV_MOMENTS = ("auto", "patches", "shifts")

INVERSE_METHODS = ("auto", "cholesky", "eigh", "lu", "newton_schulz")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurvatureConfig:
    """Settings that all factors and blocks of a layer collection share.

    Attributes:
      factor_dtype: Dtype of the moving averages; None means that of the layer's tensors, or
        float32 if these are of a 16-bit type.
      inverse_dtype: Dtype in which inverses, powers and Cholesky factors are kept; None means
        `factor_dtype`. They are computed in float32 or wider.
      inverse_method: Method to invert factors. "cholesky", "lu" and "newton_schulz" are the
        functions of `kfac.linalg.damped_matrix`. "eigh" uses one eigendecomposition for all
        inverses and powers of a factor. "auto" uses "eigh" if a factor has other powers, or
        `eigen_threshold` inverses, and "cholesky" elsewhere. Other powers and Cholesky factors do
        not depend on this setting.
      eigen_threshold: Smallest number of inverses of one factor for which "auto" uses a shared
        eigendecomposition instead of Cholesky decompositions, at least 1.
      balance_damping: True to split the damping between two Kronecker factors by their mean traces
        (K-FAC §6.3), False to split it evenly.
      damping_power: p; the damping of a layer that is applied T times to an example is λ/T^p.
      conv_moment: Computation of the second moment of image patches. "patches" makes the patches.
        "shifts" correlates image rows, or their Fourier transforms, for the filters that allow it,
        and makes no patches. "auto" takes the way with the lower estimated cost.
      zero_mean_activations: True if "kron_sua" assumes that activations have zero mean.
      sub_sample_inputs: True to compute the input factors of convolutions from a random part of the
        examples. A layer's registration can choose otherwise; automatic registration does not. No
        effect on "kron_sua" and "diagonal".
      sub_sample_patches: True to compute the input factors of convolutions from a random part of
        the patches. The rest is as for `sub_sample_inputs`.
      input_fraction: Share of the examples kept by `sub_sample_inputs`, in (0, 1].
      patches_per_dimension: Patches kept by `sub_sample_patches` for each row of the factor.
      max_patches: Upper limit of the patches kept by `sub_sample_patches`.
    """

    factor_dtype: DType = None
    inverse_dtype: DType = None
    inverse_method: str = "auto"
    eigen_threshold: int = 4
    balance_damping: bool = True
    damping_power: float = 1.0
    conv_moment: str = "auto"
    zero_mean_activations: bool = False
    sub_sample_inputs: bool = False
    sub_sample_patches: bool = False
    input_fraction: float = 0.2
    patches_per_dimension: int = 3
    max_patches: int = 10_000_000

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          ValueError: A value is out of its range.
        """
        check_period("eigen_threshold", self.eigen_threshold, "inverses")
        check_period("patches_per_dimension", self.patches_per_dimension, "patches")
        check_period("max_patches", self.max_patches, "patches")
        check_number("damping_power", self.damping_power, ">= 0", lambda x: x >= 0)
        check_number("input_fraction", self.input_fraction, "in (0, 1]", lambda x: 0 < x <= 1)
        check_choice("sub_sample_inputs", self.sub_sample_inputs, (True, False))
        check_choice("sub_sample_patches", self.sub_sample_patches, (True, False))
        check_choice("conv_moment", self.conv_moment, CONV_MOMENTS)
        check_choice("inverse_method", self.inverse_method, INVERSE_METHODS)
        for argument, dtype in (
            ("factor_dtype", self.factor_dtype),
            ("inverse_dtype", self.inverse_dtype),
        ):
            if dtype is not None and not tf.as_dtype(dtype).is_floating:
                raise ValueError(
                    f"Cannot set up K-FAC: {argument}={dtype!r}. Accepted are floating-point "
                    "dtypes, such as tf.float32, and None."
                )
