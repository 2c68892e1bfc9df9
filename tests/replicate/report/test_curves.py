import pytest
import tensorflow as tf

from replicate.report.curves import read_curves

v1 = tf.compat.v1


def test_training_and_evaluations_are_read(model_dir):
    runs = read_curves(model_dir)
    assert list(runs) == ["training", "eval_test"]
    assert runs["training"]["loss"][:2] == ((1, 6, 11), (2.0, 0.5, 0.0625))
    assert {tag: curve[:2] for tag, curve in runs["eval_test"].items()} == {
        "loss": ((6, 11), (0.75, 0.875)),
        "accuracy": ((6, 11), (0.5, 0.625)),
    }


def test_repeated_steps_count_once(tmp_path):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(tmp_path))
    for start, values in ((1, (1.0, 2.0, 3.0)), (3, (4.0, 5.0))):
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), start)
        for step, value in enumerate(values, start):
            scalar = v1.Summary.Value(tag="loss", simple_value=value)
            writer.add_summary(v1.Summary(value=[scalar]), step)
    writer.close()
    assert read_curves(tmp_path)["training"]["loss"][:2] == ((1, 2, 3, 4), (1.0, 2.0, 4.0, 5.0))


def test_a_truncated_file_is_read_up_to_its_last_whole_event(model_dir, tmp_path):
    (path,) = (model_dir / "eval_test").glob("*tfevents*")
    (tmp_path / path.name).write_bytes(path.read_bytes()[:-5])
    assert read_curves(tmp_path)["training"]["accuracy"][:2] == ((6,), (0.5,))


@pytest.mark.parametrize("content", [b"", b"garbage" * 99])
def test_damaged_files_have_no_curves(tmp_path, content):
    (tmp_path / "events.out.tfevents.1.x").write_bytes(content)
    assert read_curves(tmp_path) == {}


def test_event_that_is_no_event_is_refused(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "events.out.tfevents.1.x")) as writer:
        writer.write(b"\xff")
    with pytest.raises(ValueError, match=f"cannot read the event files in {tmp_path}: one is dam"):
        read_curves(tmp_path)


def test_a_folder_without_events_has_no_runs(tmp_path):
    assert read_curves(tmp_path) == {}


def test_folders_and_files_that_lead_out_are_left_out(model_dir, tmp_path):
    (tmp_path / "eval_test").symlink_to(model_dir / "eval_test")
    (tmp_path / "eval").mkdir()
    (events,) = (model_dir / "eval_test").iterdir()
    (tmp_path / "eval" / events.name).symlink_to(events)
    assert read_curves(tmp_path) == {}
