import pytest
import tensorflow as tf

from replicate.estimator.checkpoints.model_files import ModelFiles
from replicate.estimator.checkpoints.state_file import last_writer, write_state
from replicate.estimator.lease.claim import claim_lease

v1 = tf.compat.v1


def test_tensorflow_reads_the_state_file_of_a_writer(tmp_path):
    lease = claim_lease(str(tmp_path), above=6)
    paths = [f"{tmp_path}/model.ckpt-{step}" for step in (1, 2)]
    write_state(ModelFiles(str(tmp_path), lease), paths)
    lease.release()
    assert (tmp_path / "checkpoint").read_text().splitlines()[0] == "# writer 7"
    assert last_writer(str(tmp_path)) == 7
    state = v1.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == paths
    assert v1.train.get_checkpoint_state(str(tmp_path)).model_checkpoint_path == paths[-1]


@pytest.mark.parametrize("content", [None, b"", b"\xff", b'model_checkpoint_path: "a"'])
def test_there_is_no_writer_in_other_state_files(content, tmp_path):
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    assert last_writer(str(tmp_path)) == 0


def test_without_a_lease_the_state_file_is_that_of_tensorflow(tmp_path):
    (tmp_path / "ours").mkdir()
    write_state(ModelFiles(f"{tmp_path}/ours"), [f"{tmp_path}/ours/a-1", f"{tmp_path}/ours/a-2"])
    v1.train.update_checkpoint_state(str(tmp_path), "a-2", ["a-1", "a-2"])
    assert (tmp_path / "ours" / "checkpoint").read_text() == (tmp_path / "checkpoint").read_text()
