"""Problems of the races, and the settings that each optimizer chooses among.

Importing this module does not import TensorFlow.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

MODELS = ("autoencoder", "convnet")
BASELINE = "adam"
"""Optimizer whose lowest loss is the target of the others."""
WEIGHTS = ("sparse", "glorot")
"""Kinds of initial weights of the autoencoder on MNIST."""
SGD = "momentum"
GROWING = "kfac growing"
"""Adaptive K-FAC with batches that grow."""


class Problem(NamedTuple):
    """A model and the data that it trains on.

    Attributes:
      model: One of `MODELS`.
      data_dir: Folder of MNIST's IDX files, or "" for scikit-learn's digits.
      weights: One of `WEIGHTS`: initial weights of the autoencoder on MNIST. On the digits it has
        Glorot's.
    """

    model: str
    data_dir: str = ""
    weights: str = WEIGHTS[0]

    @property
    def activation(self) -> str:
        """Activation of an autoencoder's hidden layers.

        On MNIST it is that of Martens & Grosse (2015), arXiv:1503.05671, §13.
        """
        return "sigmoid" if self.data_dir else "tanh"

    @property
    def name(self) -> str:
        """Name in tables and in the settings, such as "convnet, MNIST"."""
        return f"{self.model}, MNIST" if self.data_dir else self.model


Settings: TypeAlias = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Settings by optimizer and name of the problem."""

_ADAPTIVE_KFAC: Mapping[str, tuple[float, ...]] = {
    "autoencoder": (0.1, 0.03, 0.01),
    "convnet": (0.1, 0.03, 0.01),
    "autoencoder, MNIST": (0.3, 0.1, 0.03),
    "convnet, MNIST": (1.0, 0.1, 0.01),
}
SETTINGS: Settings = {
    SGD: {
        "autoencoder": (0.01, 0.03, 0.1),
        "convnet": (0.02, 0.05, 0.1),
        "autoencoder, MNIST": (0.003, 0.01, 0.03),
        "convnet, MNIST": (0.02, 0.05, 0.1),
    },
    BASELINE: {
        "autoencoder": (0.005, 0.01, 0.02),
        "convnet": (0.005, 0.01, 0.02),
        "autoencoder, MNIST": (0.001, 0.003, 0.01),
        "convnet, MNIST": (0.001, 0.003, 0.01),
    },
    "kfac fixed": {
        "autoencoder": (0.01, 0.003, 0.001),
        "convnet": (0.01, 0.003, 0.001),
        "autoencoder, MNIST": (0.03, 0.01, 0.003),
        "convnet, MNIST": (0.01, 0.003, 0.001),
    },
    "kfac": _ADAPTIVE_KFAC,
    GROWING: {**_ADAPTIVE_KFAC, "autoencoder, MNIST": (0.1, 0.03, 0.01)},
}
"""Ours. `loss_programs.Program` says what a setting means."""

RIVAL_SETTINGS: Settings = {
    BASELINE: SETTINGS[BASELINE],
    "kfac": {
        "autoencoder": (0.01, 0.001, 0.0001),
        "convnet": (0.1, 0.03, 0.01),
        "autoencoder, MNIST": (0.3, 0.1, 0.03),
        "convnet, MNIST": (0.1, 0.03, 0.01),
    },
}
"""Those of tensorflow/kfac and of its Adam: the initial damping of K-FAC, which adapts it later."""

KFAC_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "autoencoder": {"damping_adaptation_decay": 0.9, "min_damping": 1e-6},
    "convnet": {"damping_adaptation_decay": 0.9, "min_damping": 1e-6},
    # Logistic units: see docs/howto/kfac_tuning.md, "Deep autoencoders".
    "autoencoder, MNIST": {"damping_adaptation_decay": 0.8, "min_damping": 3e-4},
    "convnet, MNIST": {"damping_adaptation_decay": 0.9, "min_damping": 1e-6},
}
"""Further arguments of adaptive K-FAC, ours and the rival's, by name of the problem."""

GROWING_OPTIONS: Mapping[str, Mapping[str, float]] = {
    **KFAC_OPTIONS,
    "autoencoder, MNIST": {"damping_adaptation_decay": 0.95, "min_damping": 1e-4},
}
"""The same for batches that grow, whose noise falls, so that a smaller damping is of use."""

CALIBRATED = ("autoencoder", "convnet", "convnet, MNIST")
"""Names of the problems on which our initial damping is a multiple of the mean curvature."""

BLOCK = {SGD: 40, BASELINE: 40, "kfac fixed": 5, "kfac": 5, GROWING: 5}
"""Steps between two evaluations. All optimizers have as many blocks."""
