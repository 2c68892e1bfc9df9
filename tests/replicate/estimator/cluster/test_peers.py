"""The text about lost workers says what starts those that are left."""

import pytest

import replicate
from replicate.estimator.cluster.peers import loss_of
from replicate.estimator.cluster_config import ClusterConfig


@pytest.mark.parametrize(
    ("fewest", "advice"),
    [
        (None, "Start all workers again, or look for its error"),
        (2, "Those that are left hand over the newest step and end: replicate.launch with --min_"),
    ],
)
def test_text_about_a_lost_worker_tells_the_way_on(fewest, advice):
    cluster = ClusterConfig({"chief": ("a:1",), "worker": ("a:2", "a:3")}, "worker", 0)
    settings = replicate.AllReduce(min_workers=fewest)
    config = replicate.RunConfig(cluster=cluster, train_distribute=settings)
    text = loss_of(config, ["chief 0 at 'a:1'"])
    assert text.startswith("worker 0 ends because a step cannot be completed: there is no answer ")
    assert f"from chief 0 at 'a:1'. {advice}" in text
