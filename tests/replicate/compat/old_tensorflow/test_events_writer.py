"""The file of an EventsWriter is one that TensorFlow reads."""

import tensorflow as tf

from replicate.compat.old_tensorflow.events_writer import EventsWriter

v1 = tf.compat.v1


def test_events_are_read_back(tmp_path):
    writer = EventsWriter(str(tmp_path / "events").encode())
    writer.InitWithSuffix("_end")
    value = v1.Summary.Value(tag="loss", simple_value=2.0)
    writer.WriteEvent(v1.Event(wall_time=1, step=7, summary=v1.Summary(value=[value])))
    assert writer.Flush()
    path = writer.FileName().decode()
    assert writer.Close()
    assert path.startswith(f"{tmp_path}/events.out.tfevents.")
    assert path.endswith("_end")
    first, second = v1.train.summary_iterator(path)
    assert first.file_version == "brain.Event:2"
    assert (second.step, second.summary.value[0].simple_value) == (7, 2.0)
