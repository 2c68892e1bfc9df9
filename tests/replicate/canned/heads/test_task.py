import pytest

from replicate.canned.heads.measures import mean
from replicate.canned.heads.task import Examples, Task, average_loss


def test_a_task_must_be_completed():
    with pytest.raises(TypeError, match="abstract"):
        Task(where="Head", logits_dimension=1)


def test_average_loss_takes_the_losses():
    metric = average_loss(mean())
    assert metric.key == "average_loss"
    assert metric.values(Examples(labels=1, predictions={}, losses=2)) == [2]
