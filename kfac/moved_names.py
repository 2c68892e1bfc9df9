"""Names of tensorflow/kfac that are not here, and what took their place.

A module that had such a name there asks `finder` for its `__getattr__`, so that whoever uses the
name is told what to write instead, in the same AttributeError that any other unknown name gets. No
name comes back to life, and nothing is imported or changed. docs/kfac.md has the whole table.
"""

import types
from collections.abc import Callable, Mapping
from typing import NoReturn

_CONFIG = "kfac.LayerCollection(config=kfac.CurvatureConfig(…)), whose fields are its arguments"
_NONE = "nothing: averages are exact from the first update on, and over all towers' examples"

_FIELDS = {
    "EIGENVALUE_DECOMPOSITION_THRESHOLD": "eigen_threshold",
    "ASSUME_ZERO_MEAN_ACTIVATIONS": "zero_mean_activations",
    "INPUTS_TO_EXTRACT_PATCHES_FACTOR": "input_fraction",
    "MAX_NUM_PATCHES": "max_patches",
    "MAX_NUM_PATCHES_PER_DIMENSION": "patches_per_dimension",
    "USE_PATCHES_SECOND_MOMENT_OP": "conv_moment",
    "NORMALIZE_DAMPING_POWER": "damping_power",
    "PI_TYPE": "balance_damping",
}
_SETTINGS = {
    "set_global_constants": _CONFIG,
    **{
        name: f"kfac.LayerCollection(config=kfac.CurvatureConfig({field}=…))"
        for name, field in _FIELDS.items()
    },
    **dict.fromkeys(
        ("INIT_COVARIANCES_AT_ZERO", "INIT_INVERSES_AT_ZERO", "TOWER_STRATEGY", "ZERO_DEBIAS"),
        _NONE,
    ),
}

REPLACEMENTS: Mapping[str, Mapping[str, str]] = types.MappingProxyType(
    {
        "kfac": {
            "async_inv_cov_update_kfac_opt": "kfac.async_updates",
            "data_reader_alt": "kfac.data_reader, with CachedIndexedReader",
            "periodic_inv_cov_update_kfac_opt": "kfac.periodic",
            "python": "the modules of kfac itself, such as kfac.optimizer",
            "utils": f"for utils.set_global_constants {_CONFIG}; for utils.batch_execute "
            "kfac.batch_execute",
        },
        "kfac.fisher_blocks": _SETTINGS,
        "kfac.fisher_factors": _SETTINGS,
        "kfac.optimizer": {
            "set_global_constants": "the constructor's argument include_damping_in_qmodel_change",
        },
    }
)
"""Module → a name that it had → what to use."""


def finder(module: str) -> Callable[[str], NoReturn]:
    """Returns the `__getattr__` of a module, which knows what replaces the names of old.

    Args:
      module: Its full name, a key of `REPLACEMENTS`.
    """
    replacements = REPLACEMENTS[module]

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        text = f"module {module!r} has no attribute {name!r}"
        if name in replacements:
            text += (
                f", which tensorflow/kfac had. Use {replacements[name]}. See docs/kfac.md, 'From "
                "tensorflow/kfac and tf.contrib.kfac'."
            )
        raise AttributeError(text)

    return __getattr__
