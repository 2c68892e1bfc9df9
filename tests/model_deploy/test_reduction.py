"""Reductions: sums as NumPy's, on the devices of the variables, and plans of equal parts."""

import numpy as np
import pytest
import tensorflow as tf

from model_deploy.gradients import gradient_values
from model_deploy.reduction import reduce_over_copies
from model_deploy.reduction_plan import GradientSize, Piece, plan_reduction

v1 = tf.compat.v1
WAYS = ["last", "tree", "sharded"]
SHAPES = {"wide": [40, 30], "bias": [30], "scalar": [], "half": [700], "some": [3], "table": [5, 2]}
DENSE = ["wide", "bias", "scalar", "half"]


def devices(count):
    return [f"/device:CPU:{index + 1}" for index in range(count)]


@pytest.fixture
def variables(graph):
    made = {}
    for index, (name, shape) in enumerate(SHAPES.items()):
        with v1.device(f"/device:CPU:{index % 2}"):
            made[name] = v1.get_variable(name, shape, tf.float16 if name == "half" else tf.float32)
    return made


def values_of(name, copy):
    """Returns numbers of different sizes, so that the order of addition shows in the sum."""
    random = np.random.default_rng([copy, *name.encode()])
    numbers = np.asarray(random.normal(size=SHAPES[name]) * 4.0 ** random.integers(-3, 4))
    return numbers.astype(np.float16 if name == "half" else np.float32)


def copies_of(variables, count):
    """Returns gradients of each copy: dense, one that the first copy lacks, and sparse."""
    copies = []
    for copy, device in enumerate(devices(count)):
        with v1.device(device):
            pairs = [(tf.constant(values_of(name, copy)), variables[name]) for name in DENSE]
            some = None if copy == 0 else tf.constant(values_of("some", copy))
            rows = tf.constant([1, copy % 5])
            table = tf.IndexedSlices(tf.gather(values_of("table", copy), rows), rows, [5, 2])
        copies.append([*pairs, (some, variables["some"]), (table, variables["table"])])
    return copies


def in_order(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def in_tree(parts):
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return in_tree(parts[:middle]) + in_tree(parts[middle:])


def test_sums_are_those_of_numpy(variables):
    count = 3
    copies = copies_of(variables, count)
    sums = {}
    for way in WAYS:
        for pack_bytes in (None, 2000):
            summed = reduce_over_copies(copies, devices(count), way, pack_bytes)
            assert [variable.op.name for _, variable in summed] == list(SHAPES)
            for total, variable in summed:
                assert gradient_values(total).device == variable.device
            assert isinstance(summed[-1][0], tf.IndexedSlices)
            dense = [v1.convert_to_tensor(total) for total, _ in summed]
            sums[way, pack_bytes] = dict(zip(SHAPES, dense, strict=True))
    with v1.Session() as session:
        first, second = session.run(sums), session.run(sums)
    for (way, pack_bytes), found in first.items():
        add = in_tree if way == "tree" else in_order
        for name in DENSE:
            bits = add([values_of(name, copy) for copy in range(count)])
            np.testing.assert_array_equal(found[name], bits, err_msg=f"{way} {name}")
            np.testing.assert_array_equal(found[name], second[way, pack_bytes][name])
        some = in_order([values_of("some", copy) for copy in range(1, count)])
        np.testing.assert_array_equal(found["some"], some)
        table = np.zeros([5, 2])
        for copy in range(count):
            for row in (1, copy % 5):
                table[row] += values_of("table", copy)[row]
        np.testing.assert_allclose(found["table"], table, rtol=1e-5)


def test_one_copy_is_passed_through(variables):
    [copy] = copies_of(variables, 1)
    for way in WAYS:
        summed = reduce_over_copies([copy], devices(1), way)
        assert summed == [pair for pair in copy if pair[0] is not None]


def added_on(graph, way, count):
    """Returns the devices of the additions, for gradients that fill 1 KiB and more for each."""
    with v1.device("/device:CPU:0"):
        variable = v1.get_variable("v", [count * 400])
    copies = []
    for device in devices(count):
        with v1.device(device):
            copies.append([(tf.ones([count * 400]), variable)])
    before = len(graph.get_operations())
    reduce_over_copies(copies, devices(count), way)
    made = graph.get_operations()[before:]
    additions = [op for op in made if op.type in ("AddN", "AddV2")]
    return sorted((op.device[-1], len(op.inputs)) for op in additions)


@pytest.mark.parametrize(
    ("way", "additions"),
    [
        ("last", [("0", 4)]),
        ("sharded", [(device, 4) for device in "1234"]),
        ("tree", [(device, 2) for device in "111222333444"]),
    ],
)
def test_gradients_are_added_on_the_devices_of_each_way(graph, way, additions):
    assert added_on(graph, way, 4) == additions


def test_unknown_reductions_and_copies_without_a_device_are_refused(variables):
    with pytest.raises(ValueError, match=r"reduction must be one of .*'tree'.*, got 'ring'"):
        reduce_over_copies(copies_of(variables, 2), devices(2), "ring")
    with pytest.raises(ValueError, match="gradients of 2 copies on 3 devices"):
        reduce_over_copies(copies_of(variables, 2), devices(3), "tree")


def float32(*counts, homes=None):
    homes = homes or [None] * len(counts)
    return [
        GradientSize(count, 4, "float32", home) for count, home in zip(counts, homes, strict=True)
    ]


def bytes_by_owner(plan, gradients, copies):
    loads = [0] * copies
    for pack in plan:
        for piece in pack.pieces:
            loads[pack.owner] += piece.elements * gradients[piece.gradient].element_bytes
    return loads


@pytest.mark.parametrize("pack_bytes", [None, 1, 3000, 10**9])
@pytest.mark.parametrize("copies", [1, 3, 8])
@pytest.mark.parametrize("seed", range(2))
def test_each_element_is_planned_once(seed, copies, pack_bytes):
    random = np.random.default_rng(seed)
    gradients = [
        GradientSize(int(count), width, width, None if home < 0 else int(home))
        for count, width, home in zip(
            random.integers(0, 9000, size=12),
            random.choice([2, 4, 8], size=12).tolist(),
            random.integers(-1, copies, size=12),
            strict=True,
        )
    ]
    plan = plan_reduction(gradients, copies, pack_bytes)
    seen = [np.zeros(size.elements, int) for size in gradients]
    for pack in plan:
        assert 0 <= pack.owner < copies
        assert len({gradients[piece.gradient].kind for piece in pack.pieces}) == 1
        for piece in pack.pieces:
            seen[piece.gradient][piece.start : piece.start + piece.elements] += 1
    assert all((counts == 1).all() for counts in seen)
    assert {piece.gradient for pack in plan for piece in pack.pieces} == set(range(12))


@pytest.mark.parametrize("copies", [2, 4, 8])
def test_parts_have_equal_bytes(copies):
    gradients = float32(400, 16, 6400, 16, 7840, 10)
    loads = bytes_by_owner(plan_reduction(gradients, copies), gradients, copies)
    assert sum(loads) == 58728
    assert max(loads) <= 58728 / copies + 512


def test_small_gradients_are_not_cut():
    plan = plan_reduction(float32(500, 500), 2)
    assert [(pack.owner, pack.pieces) for pack in plan] == [
        (0, (Piece(0, 0, 500),)),
        (1, (Piece(1, 0, 500),)),
    ]
    assert [pack.pieces for pack in plan_reduction(float32(511), 8)] == [(Piece(0, 0, 511),)]
    assert len(plan_reduction(float32(512), 8)) == 2


def test_gradients_stay_on_the_devices_of_their_variables():
    gradients = float32(1000, 1000, 1000, 1000, homes=[1, 0, 1, 0])
    owners = {pack.pieces[0].gradient: pack.owner for pack in plan_reduction(gradients, 2)}
    assert owners == {0: 1, 1: 0, 2: 1, 3: 0}


def test_packs_have_at_most_the_given_bytes():
    gradients = float32(*[300] * 8)
    plan = plan_reduction(gradients, 2, pack_bytes=2400)
    assert [(pack.owner, len(pack.pieces)) for pack in plan] == [(0, 2), (0, 2), (1, 2), (1, 2)]
    assert len(plan_reduction(gradients, 2)) == 8
