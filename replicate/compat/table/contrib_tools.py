"""Rows of the packages of tf.contrib that help with data, inference, profiles and graphs."""

from replicate.compat.table.row import CONTRIB, NOTHING, Row, absent, modules_of, same, written_here

_OURS = "replicate.compat.contrib"
_PREPROCESSING = "tf.contrib.learn.preprocessing"
_TFPROF = "tf.contrib.tfprof"
_QUANTIZE = (
    "TensorFlow no longer rewrites a graph for training with quantized numbers: train without it, "
    "and convert the exported model by tf.lite.TFLiteConverter with its optimizations."
)
_PROFILE = "Profile steps by RunConfig(profile_steps=…), or by tf.profiler.Profiler."

ROWS = [
    *written_here("staging"),
    *(
        Row(f"{CONTRIB}.stateless.stateless_{old}", f"tf.random.stateless_{new}")
        for old, new in (
            ("multinomial", "multinomial"),
            ("random_normal", "normal"),
            ("random_uniform", "uniform"),
            ("truncated_normal", "truncated_normal"),
        )
    ),
    *(
        row
        for module in (_TFPROF, f"{_TFPROF}.model_analyzer")
        for row in same(
            module,
            f"{_OURS}.tfprof",
            (
                "FLOAT_OPS_OPTIONS",
                "PRINT_ALL_TIMING_MEMORY",
                "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
                "print_model_analysis",
            ),
        )
    ),
    *same(f"{_TFPROF}.tfprof_logger", f"{_OURS}.tfprof", ("write_op_log",)),
    *same(_TFPROF, "tf.profiler", ("advise", "profile")),
    *absent(_TFPROF, ("ProfileContext",), _PROFILE),
    *modules_of(_TFPROF, ("python.tools.tfprof",)),
    *modules_of(f"{_TFPROF}.model_analyzer", ("python.tools.tfprof.model_analyzer",)),
    Row(
        f"{CONTRIB}.distributions.*",
        f"{_OURS}.distributions",
        "Those of TensorFlow Probability if it is installed, else of tf.distributions.",
    ),
    *written_here("learn.preprocessing"),
    *modules_of(_PREPROCESSING, ("categorical", "categorical_vocabulary", "text")),
    *written_here("predictor"),
    Row(
        f"{CONTRIB}.predictor.from_contrib_estimator",
        f"{_OURS}.predictor.from_estimator",
        "Its serving_input_receiver_fn is one of tf.estimator.export.",
    ),
    Row(f"{CONTRIB}.predictor.predictor.Predictor", f"{_OURS}.predictor.Predictor"),
    *written_here("image"),
    *modules_of(f"{CONTRIB}.image", ("python.ops.image_ops",)),
    Row(f"{CONTRIB}.linalg.LinearOperatorTriL", "tf.linalg.LinearOperatorLowerTriangular"),
    Row(f"{CONTRIB}.linalg.LinearOperatorMatrix", "tf.linalg.LinearOperatorFullMatrix"),
    *same(
        f"{CONTRIB}.linalg",
        "tf.linalg",
        (
            "LinearOperator",
            "LinearOperatorBlockDiag",
            "LinearOperatorCirculant",
            "LinearOperatorCirculant2D",
            "LinearOperatorCirculant3D",
            "LinearOperatorComposition",
            "LinearOperatorDiag",
            "LinearOperatorFullMatrix",
            "LinearOperatorIdentity",
            "LinearOperatorKronecker",
            "LinearOperatorLowRankUpdate",
            "LinearOperatorLowerTriangular",
            "LinearOperatorScaledIdentity",
            "LinearOperatorZeros",
        ),
    ),
    *written_here("graph_editor", "Loops of tf.while_loop cannot be copied."),
    *modules_of(f"{CONTRIB}.graph_editor", ("edit", "reroute", "select", "subgraph", "transform")),
    Row(
        f"{CONTRIB}.gan.*",
        "tensorflow_gan",
        "Needs tensorflow-gan, which calls names that are gone itself: run with "
        "--package=tensorflow_gan --package=tensorflow_hub.",
    ),
    *absent(
        f"{CONTRIB}.quantize",
        (
            "create_eval_graph",
            "create_training_graph",
            "experimental_create_eval_graph",
            "experimental_create_training_graph",
        ),
        _QUANTIZE,
    ),
    Row(f"{CONTRIB}.lite.*", "tf.lite"),
    *(
        Row(f"{CONTRIB}.{package}.*", None, NOTHING)
        for package in ("image", "graph_editor", "predictor", "tfprof")
    ),
]
