"""Feature columns, and the program."""

import pytest

from examples import tables, wide_and_deep

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_columns_are_bucketized_crossed_and_embedded():
    columns = wide_and_deep.make_columns(tables.load("wine"))
    linear, deep = ({column.name for column in part} for part in columns)
    assert len(linear) == 10 + 3
    assert "alcohol_bucketized_X_malic_acid_bucketized" in linear
    assert len(deep) == 13 + 3
    assert {"proline", "alcohol_bucketized_X_malic_acid_bucketized_embedding"} <= deep


@pytest.mark.broad
def test_program_learns_and_draws(run_program, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--table=wine")
    done = run_program("wide_and_deep", *arguments, "--train_steps=30")
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert "106 rows to train on, 72 to test on, 13 columns" in done.out
    assert "none in" in done.out
    assert "step 30 " in done.out
    assert done.number("train accuracy") > 0.95
    assert done.number("test accuracy") > 0.85
    assert done.number("scikit-learn") > 0.95
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "config.json").exists()
    other = run_program("wide_and_deep", *arguments, "--hidden_units=8,4")
    assert other.code == 2
    assert "holds checkpoints of a network of 16 units for wine" in other.err
