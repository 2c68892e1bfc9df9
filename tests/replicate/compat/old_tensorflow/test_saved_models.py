"""Paths and versions of exports."""

from replicate.compat.old_tensorflow import saved_models
from replicate.compat.old_tensorflow.saved_models import Path


def test_paths_of_a_saved_model():
    assert saved_models.get_variables_path("/m") == "/m/variables/variables"
    assert saved_models.get_variables_dir(b"/m") == "/m/variables"
    assert saved_models.get_assets_dir("/m") == "/m/assets"


def test_older_exports_are_found(tmp_path):
    for name in ("9", "10", "temp-11", "8"):
        (tmp_path / name).mkdir()

    def parser(path):
        name = path.path.rpartition("/")[2]
        return path._replace(export_version=int(name)) if name.isdigit() else None

    paths = saved_models.get_paths(str(tmp_path), parser)
    assert len(paths) == 3
    kept = saved_models.largest_export_versions(2)
    assert {each.export_version for each in kept(paths)} == {9, 10}
    others = saved_models.negation(kept)(paths)
    assert others == [Path(str(tmp_path / "8"), 8)]
