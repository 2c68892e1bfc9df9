"""The checks that all datasets share."""

import pytest

from examples.slim.datasets import splits


def test_accepts_existing_splits(tmp_path):
    splits.check_split("mine", "test", ["train", "test"])
    splits.check_no_pattern("mine", None)
    assert splits.required_folder("mine", str(tmp_path)) == str(tmp_path)


def test_a_folder_must_be_given_and_exist(tmp_path):
    for nothing in (None, ""):
        with pytest.raises(ValueError, match="mine needs the folder of its files: set --dataset_d"):
            splits.required_folder("mine", nothing)
    with pytest.raises(ValueError, match=r"there is no folder '.*none'"):
        splits.required_folder("mine", str(tmp_path / "none"))
