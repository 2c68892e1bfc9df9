"""A model directory serves one purpose as long as it has checkpoints."""

import pytest

from examples import model_dir


def test_a_new_directory_is_made_and_may_change_its_purpose_without_checkpoints(tmp_path):
    folder = tmp_path / "a" / "b"
    model_dir.claim(str(folder), "one")
    model_dir.claim(str(folder), "another")
    assert [path.name for path in folder.iterdir()] == ["trained_for.txt"]


def test_checkpoints_keep_their_purpose(tmp_path):
    model_dir.claim(str(tmp_path), "one")
    (tmp_path / "checkpoint").touch()
    model_dir.claim(str(tmp_path), "one")
    with pytest.raises(ValueError, match=f"{tmp_path} holds checkpoints of one, and .* another"):
        model_dir.claim(str(tmp_path), "another")
    assert (tmp_path / "trained_for.txt").read_text() == "one"


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_is_refused_and_left_alone(tmp_path, below):
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(ValueError, match=f"--model_dir={path}.* cannot be written in"):
        model_dir.claim(str(path / below), "one")
    assert path.read_text() == "precious"
