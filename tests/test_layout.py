"""The shape of the project: mirrored tests, public names, things that sources may not do."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("kfac", "model_deploy", "replicate")

# The public names, in full: a change of the API is a change of this table.
PUBLIC = {
    "kfac": """
        AsyncInvCovUpdateKfacOpt AsyncUpdateHook ClusterKfacOpt CurvatureConfig
        CurvatureMatrixVectorProductComputer KfacOptimizer LayerCollection OpQueue
        OpQueueHook PeriodicInvCovUpdateKfacOpt WorkerRole adaptive async_updates
        auto_register_layers batch_execute canned cluster curvature_matrix_vector_products
        data_reader estimator fisher_blocks fisher_factors for_canned graph_layer_collection
        graph_search keras layer_collection linalg loss_functions op_queue optimizer
        periodic placement precondition utils worker_roles
    """,
    "model_deploy": """
        Clone DeployedModel DeploymentConfig DevicePlan GradientReduction SharedPlacement
        SharedVariables VariablePlacer canonical_device create_clones cross_in_packs deploy
        device_plan local_devices optimize_clones reduce_over_copies sum_gradients
        sum_over_copies
    """,
    "replicate": """
        AVERAGE_LOSS_METRIC_KEY AllReduce BaselineClassifier BaselineEstimator
        BaselineRegressor BestExporter BinaryClassHead BoostedTreesClassifier
        BoostedTreesEstimator BoostedTreesRegressor CheckpointError CheckpointSaverHook
        CheckpointSaverListener ClusterConfigError ClusterError CutOffError DNNClassifier
        DNNEstimator
        DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor
        DNNRegressor Difference DynamicLossScale Estimator EstimatorSpec EvalSpec Exporter
        FeedFnHook FinalExporter FinalOpsHook GLOBAL_VARIABLE_NAME GlobalStepWaiterHook Head
        InMemoryEvaluatorHook KMeans KMeansClustering LOSS_METRIC_KEY LatestExporter
        LinearClassifier LinearEstimator LinearRegressor LoggingTensorHook
        LogisticRegressionHead ModeKeys ModelAverageCustomGetter ModelAverageOptimizer
        ModelDirInUseError MultiClassHead MultiHead MultiLabelHead
        NanLossDuringTrainingError NanTensorHook NonFiniteError PoissonRegressionHead
        ProfilerHook RegressionHead ReplicationCheck RunConfig SecondOrStepTimer
        SequentialHeadWrapper SessionRunArgs SessionRunContext SessionRunHook
        SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook SyncReplicasHook
        TaskType TowerContext TowerOptimizer TrainSpec TrainingInterrupted VocabInfo
        WarmStartSettings WorkersDifferError add_metrics binary_classification_head
        boosted_trees_classifier_train_in_memory boosted_trees_regressor_train_in_memory
        call_logit_fn check_replication classifier_parse_example_spec current_tower
        dnn_logit_fn_builder export inputs linear_logit_fn_builder logistic_regression_head
        make_early_stopping_hook make_stop_at_checkpoint_step_hook model_average model_table
        model_to_estimator multi_class_head multi_head multi_label_head per_tower_collection
        poisson_regression_head prefetch_to_towers read_eval_metrics regression_head
        regressor_parse_example_spec replicate_model_fn step_seed stop_if_higher_hook
        stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook tpu
        train_and_evaluate worker_share
    """,
}


def modules(*folders):
    """Paths of the Python files in `folders`, relative to the project."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in found)


SOURCES = modules(*PACKAGES)
# Programs that start a user's program own the process.
ALLOWED = {
    "replicate/onednn.py": ["changes an environment variable"],
    "replicate/run.py": ["changes an environment variable"],
    "replicate/compat/python_command.py": ["changes an environment variable"] * 3,
    "replicate/compat/runner.py": ["changes an environment variable"] * 4 + ["process-wide switch"],
}


def dotted(node):
    """The dotted name that an expression spells, or "" if it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return owner and f"{owner}.{node.attr}"
    return ""


def forbidden(tree):
    """Yields (line, reason) for each thing in `tree` that no package may do."""
    for node in ast.walk(tree):
        name = dotted(node)
        if name == "tf.device":
            yield node.lineno, "tf.device refuses device functions: v1.device"
        elif name.startswith(("tf.python.", "tensorflow.python.")):
            yield node.lineno, "private TensorFlow API"
        elif name.endswith((".disable_v2_behavior", ".disable_eager_execution")):
            yield node.lineno, "process-wide switch"
        elif name in ("os.putenv", "os.unsetenv") or writes_environment(node):
            yield node.lineno, "changes an environment variable"
        elif "tensorflow.python" in imported(node):
            yield node.lineno, "private TensorFlow API"


def imported(node):
    """The modules that an import statement names, as one text."""
    if isinstance(node, ast.Import):
        return " ".join(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return " ".join(f"{node.module}.{alias.name}" for alias in node.names)
    return ""


def writes_environment(node):
    """Returns whether `node` changes os.environ."""
    if isinstance(node, ast.Subscript):
        return dotted(node.value) == "os.environ" and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call):
        owner, _, method = dotted(node.func).rpartition(".")
        return owner == "os.environ" and method in {"clear", "pop", "setdefault", "update"}
    return False


@pytest.fixture(scope="module")
def trees():
    """The syntax trees of all sources, by path."""
    return {str(path): ast.parse((ROOT / path).read_text()) for path in SOURCES}


def test_sources_do_nothing_forbidden(trees):
    found = {path: sorted(reason for _, reason in forbidden(tree)) for path, tree in trees.items()}
    assert {path: reasons for path, reasons in found.items() if reasons} == ALLOWED


def test_the_check_sees_what_is_forbidden_and_nothing_else():
    for line in (
        "tf.device('/cpu:0')",
        "from tensorflow.python import ops",
        "import tensorflow.python.ops as ops",
        "tf.python.ops.add()",
        "v1.disable_v2_behavior()",
        "tf.compat.v1.disable_eager_execution()",
        "os.environ['A'] = '1'",
        "del os.environ['A']",
        "os.environ.setdefault('A', '1')",
        "os.putenv('A', '1')",
    ):
        assert list(forbidden(ast.parse(line))), line
    for line in ("v1.device('/cpu:0')", "os.environ['A']", "os.environ.get('A')"):
        assert not list(forbidden(ast.parse(line))), line


def test_tests_stand_in_the_folders_of_the_packages():
    sources = {Path("tests", path.parent) for path in SOURCES if path.name != "__init__.py"}
    tests = {
        path.parent
        for path in modules(*(f"tests/{name}" for name in PACKAGES))
        if path.name.startswith("test_")
    }
    assert sorted(map(str, sources - tests)) == [], "folders of modules without tests"
    assert sorted(map(str, tests - sources)) == [], "folders of tests without modules"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_the_agreed_ones(package):
    assert sorted(importlib.import_module(package).__all__) == PUBLIC[package].split()
