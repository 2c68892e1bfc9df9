"""Import lines of the public docs of old systems: each works, or its error says what to write.

The lines are those of tensorflow/kfac, and those of tf.estimator and slim's model_deploy with the
name of the package replaced. Lines of packages that are not ours are in the guides. The public
names themselves are in `tests/test_layout.py`.
"""

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"

WORKING = [
    "from replicate import *",
    "from replicate.v1 import *",
    "from replicate.tpu import *",
    "from replicate.export import *",
    "from model_deploy import *",
    "from kfac import *",
    "from kfac.data_reader import CachedDataReader, CachedIndexedReader, VariableBatchReader",
    "from kfac.fisher_factors import APPROX_DIAGONAL_NAME",
    "from kfac.layer_collection import APPROX_KRONECKER_NAME, LayerCollection",
    "from kfac.layer_collection import get_default_layer_collection, set_default_layer_collection",
    "from kfac.loss_functions import CategoricalLogitsNegativeLogProbLoss",
    "from kfac.worker_roles import WORKER_STRATEGIES, WorkerRole",
    "import kfac.batch_execute; assert callable(kfac.batch_execute)",
    "from kfac.batch_execute import batch_execute",
    "from kfac import async_inv_cov_update_kfac_opt, periodic_inv_cov_update_kfac_opt",
    "from kfac.python.keras import optimizers; assert optimizers.Kfac",
    "from kfac.python.ops.kfac_utils import periodic_inv_cov_update_kfac_opt",
    "from kfac.python.ops.tensormatch import graph_search",
    "import kfac.python.ops.layer_collection as lc; assert lc.LayerCollection",
]

TOLD = {
    "from replicate import TPUEstimator": "replicate",
    "from kfac.keras import saving_utils": "load_model",
    "from kfac.fisher_factors import set_global_constants": "kfac.CurvatureConfig",
    "from kfac.examples import convnet": "examples.convnet_tutorial",
}


@pytest.mark.parametrize("line", WORKING)
def test_old_import_works(line):
    exec(line, {})


@pytest.mark.parametrize("line", TOLD)
def test_error_of_an_old_import_says_what_to_write(line):
    with pytest.raises(ImportError) as failed:
        exec(line, {})
    assert not isinstance(failed.value, ModuleNotFoundError)
    assert TOLD[line] in str(failed.value)


def test_old_imports_of_other_packages_are_in_the_guide():
    guide = (DOCS / "howto" / "from_contrib.md").read_text()
    for line in ("from deployment import model_deploy", "from tensorflow.contrib import kfac"):
        assert f"# was: {line}\n" in guide


def test_unknown_names_have_pythons_own_error():
    for module in ("kfac", "replicate", "kfac.estimator"):
        with pytest.raises(
            ImportError, match=rf"^cannot import name 'nonsense' from '{module}' \("
        ):
            exec(f"from {module} import nonsense", {})
