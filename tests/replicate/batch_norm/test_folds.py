"""Folds of a tower are found whether or not a collection lists them."""

import pytest
import tensorflow as tf

from replicate.batch_norm.folds import FoldSearch

v1 = tf.compat.v1


class Tower:
    """A graph with a batch and a variable, and the search in it."""

    def __init__(self, graph):
        self.graph = graph
        self.batch = v1.placeholder(tf.float32, [])
        self.variable = v1.get_variable("v", initializer=1.0, trainable=False)

    def search(self, ends, listed=(), unlisted=(), asked_for=()):
        operations = self.graph.get_operations()
        return FoldSearch(operations, [self.batch], ends).find(
            list(listed), set(unlisted), set(asked_for)
        )


@pytest.fixture
def tower(graph):
    return Tower(graph)


def after(operation, value):
    with v1.control_dependencies([operation]):
        return tf.identity(value).op


def test_listed_updates_need_not_see_the_batch(tower):
    update = v1.assign_add(tower.variable, 1.0).op
    found = tower.search([tower.batch.op], listed=[update])
    assert found.done == [update]
    assert found.assigned == {tower.variable.op}


@pytest.mark.parametrize("sees_batch", [True, False])
@pytest.mark.parametrize("is_awaited", [True, False])
@pytest.mark.parametrize("group", ["unlisted", "asked_for"])
def test_updates_in_no_collection_depend_on_the_batch(tower, sees_batch, is_awaited, group):
    value = 2.0 * tower.batch if sees_batch else 2.0
    update = v1.assign_add(tower.variable, value).op
    [update] = [each for each in tower.graph.get_operations() if each.type == "AssignAddVariableOp"]
    end = after(update, tower.batch) if is_awaited else tower.batch.op
    found = tower.search([end], **{group: [tower.variable.op]})
    counts = sees_batch and (is_awaited or group == "unlisted")
    assert found.done == ([update] if counts else [])
    assert found.assigned == ({tower.variable.op} if counts else set())


def test_updates_in_branches_are_done_with_the_tower(tower):
    def update():
        with v1.control_dependencies([tower.variable.assign_add(tower.batch)]):
            return tf.constant(1.0)

    end = (tower.batch * tf.cond(tower.batch > 0.0, update, lambda: 1.0)).op
    found = tower.search([end], asked_for=[tower.variable.op])
    assert found.done == [end]
    assert found.assigned == {tower.variable.op}


def test_variables_assigned_for_an_update_belong_to_it(tower):
    count = v1.get_variable("count", initializer=0.0, trainable=False)
    other = v1.get_variable("other", initializer=0.0, trainable=False)
    with v1.control_dependencies([v1.assign_add(other, 1.0)]):
        seen = tf.identity(tower.batch)
    update = v1.assign(tower.variable, seen / v1.assign_add(count, 1.0)).op
    variables = [each.op for each in (tower.variable, count, other)]
    found = tower.search([after(update, tower.batch)], asked_for=variables)
    assert found.assigned == {tower.variable.op, count.op}
