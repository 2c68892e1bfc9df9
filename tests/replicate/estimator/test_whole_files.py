import pytest
import tensorflow as tf

from replicate.estimator.whole_files import write_whole


@pytest.mark.parametrize("content", ["näher\n", b"\x00\xff"])
def test_file_replaces_the_one_before(tmp_path, content):
    path = tmp_path / "file"
    path.write_text("before")
    write_whole(str(path), content, f"{path}.tmp")
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_file_stays_if_the_new_one_cannot_be_moved(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise tf.errors.PermissionDeniedError(None, None, "no")

    path = tmp_path / "file"
    path.write_text("before")
    monkeypatch.setattr(tf.io.gfile, "rename", refuse)
    with pytest.raises(tf.errors.PermissionDeniedError):
        write_whole(str(path), "after", f"{path}.tmp")
    assert path.read_text() == "before"
