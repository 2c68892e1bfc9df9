"""Packages of tf.contrib as attributes of one module, as migrated programs use them."""

import pytest

from replicate.compat import contrib


def test_a_package_is_imported_when_it_is_asked_for(run_python):
    code = "from replicate.compat import contrib; print(contrib.distribute.DistributeConfig())"
    assert run_python(code).out.startswith("DistributeConfig(train_distribute=None")


@pytest.mark.parametrize("name", ["nothing", "_private"])
def test_a_name_that_is_no_package_is_missing(name):
    with pytest.raises(AttributeError, match=f"contrib' has no attribute '{name}'"):
        getattr(contrib, name)
