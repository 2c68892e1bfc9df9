"""Names that `replicate` lacks: those of tf.estimator, with their replacements, and misspelt ones.

Owns the hints and their errors, and loads no TensorFlow. `replicate/__init__.py` raises the error
for such a name.
"""

import difflib
import dis
import types
from collections.abc import Iterable, Mapping

_MODEL_FN = (
    "This ready-made estimator is not here: write the model as a model_fn and pass it to "
    "replicate.Estimator(model_fn, model_dir, config). Feature columns work in it through "
    "tf.compat.v1.feature_column.input_layer and linear_model, and a head such as "
    "replicate.MultiClassHead makes its EstimatorSpec."
)

HINTS: Mapping[str, str] = types.MappingProxyType(
    {
        **dict.fromkeys(
            (
                "RNNClassifier",
                "RNNEstimator",
            ),
            _MODEL_FN,
        ),
        **{
            name: f"It is replicate.tpu.{name}, for use_tpu=False."
            for name in (
                "CrossShardOptimizer",
                "InputPipelineConfig",
                "TPUClusterResolver",
                "TPUConfig",
                "TPUEstimator",
                "TPUEstimatorSpec",
            )
        },
        **{
            name: f"It is replicate.export.{name}."
            for name in (
                "SupervisedInputReceiver",
                "UnsupervisedInputReceiver",
                "build_raw_supervised_input_receiver_fn",
                "build_supervised_input_receiver_fn_from_input_fn",
            )
        },
        "clip_gradients_by_norm": "Pass clip_norm to replicate.TowerOptimizer.",
        "experimental": (
            "Its names are in replicate itself: replicate.KMeans, replicate.InMemoryEvaluatorHook, "
            "replicate.make_early_stopping_hook, replicate.stop_if_no_decrease_hook and so on. Its "
            "receivers are in replicate.export."
        ),
        "LinearSDCA": (
            "Use replicate.LinearClassifier or replicate.LinearRegressor, whose optimizer may be "
            "tf.compat.v1.train.FtrlOptimizer with its L1 and L2 penalties."
        ),
        "forward_features": "Return the features among the predictions of model_fn.",
    }
)
"""Name → advice about its replacement."""


def error_for(
    name: str, frame: types.FrameType, public: Iterable[str] = ()
) -> AttributeError | ImportError:
    """Returns the error for an absent name.

    Args:
      name: The name.
      frame: The frame that uses the name. At `from replicate import name` the error is an
        ImportError, since Python drops the text of an AttributeError there.
      public: Public names, one of which may be meant.
    """
    alike = difflib.get_close_matches(name, public, 1, cutoff=0.75)
    advice = HINTS.get(name) or (f"Did you mean replicate.{alike[0]}?" if alike else "")
    if advice and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM":
        return ImportError(f"cannot import name {name!r} from 'replicate'. {advice}")
    text = f"module 'replicate' has no attribute {name!r}"
    return AttributeError(f"{text}. {advice}" if advice else text)
