"""Hooks of K-means: the loop that chooses centers, workers that wait, and the end of training."""

import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans import hooks
from replicate.canned.kmeans.centers import create_clusters, create_trained_variables
from replicate.canned.kmeans.hooks import InitializationHook, RelativeChangeHook
from replicate.canned.kmeans.initialization import build_initialization
from replicate.canned.kmeans.settings import KMeansSettings

v1 = tf.compat.v1
POINTS = np.arange(14.0, dtype=np.float32).reshape(7, 2)


class Chosen:
    """Operations that choose 3 centers of batches of 2 points, and a session of them."""

    def __init__(self, **changes):
        settings = KMeansSettings(**{"num_clusters": 3, **changes})
        dataset = tf.data.Dataset.from_tensor_slices(POINTS).batch(2)
        points = v1.data.make_one_shot_iterator(dataset).get_next()
        self.clusters = create_clusters()
        variables = create_trained_variables(self.clusters, settings)
        self.operations = build_initialization(points, self.clusters, variables, settings)
        self.session = v1.Session()
        self.session.run(v1.global_variables_initializer())

    def run(self, num_clusters=3, size=2, is_chief=True, coord=None):
        hook = InitializationHook(self.operations, num_clusters, size, is_chief)
        hook.after_create_session(self.session, coord or v1.train.Coordinator())


def test_chief_chooses_of_one_batch_after_another(graph):
    part = Chosen()
    part.run()
    centers = part.session.run(part.clusters)
    np.testing.assert_array_equal(centers[:2], POINTS[:2])
    assert centers.shape == (3, 2)
    assert part.session.run(part.operations.is_done)
    part.run(size=None)  # In a new session, the centers stay.
    np.testing.assert_array_equal(part.session.run(part.clusters), centers)
    for wanted in ([2, 2], [3, 4]):
        text = rf"holds centers of shape [3, 2], and the model needs {wanted}"
        with pytest.raises(ValueError, match=re.escape(text)):
            part.run(*wanted)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_clusters": 9}, r"the input ended when 7 of 9 centers had been chosen"),
        (
            {"num_clusters": 3, "initial_clusters": lambda inputs, k: tf.zeros([5, 2])},
            r"gave 5 centers instead of 3.*must return at most k",
        ),
    ],
)
def test_wrong_number_of_centers_is_an_error(graph, changes, text):
    part = Chosen(**changes)
    with pytest.raises(ValueError, match=text):
        part.run(changes["num_clusters"])


def test_worker_waits_until_the_chief_has_chosen_or_the_session_stops(graph):
    part = Chosen()
    stopped = v1.train.Coordinator()
    stopped.request_stop()
    part.run(is_chief=False, coord=stopped)
    assert not part.session.run(part.operations.is_done)
    coord = mock.create_autospec(v1.train.Coordinator, instance=True)
    coord.should_stop.return_value = False
    coord.wait_for_stop.side_effect = lambda seconds: part.run()
    part.run(is_chief=False, coord=coord)
    coord.wait_for_stop.assert_called_once_with(hooks.POLL_SECS)


def test_training_stops_when_the_loss_hardly_changes(graph):
    loss = v1.placeholder(tf.float32, [])
    hook = RelativeChangeHook(loss, 0.1)
    stops = []
    for value in (9.0, 4.0, 4.6, 4.1):  # Changes by 0.5, 0.12, 0.09 of 1 + the last.
        context = mock.create_autospec(v1.train.SessionRunContext, instance=True)
        assert hook.before_run(context).fetches is loss
        hook.after_run(context, mock.Mock(results=np.float32(value)))
        stops.append(context.request_stop.called)
    assert stops == [False, False, False, True]
