"""Plans of reductions: each element once, parts of equal bytes, packs of one owner and kind."""

import numpy as np
import pytest

from model_deploy.reduction_plan import GradientSize, Piece, plan_reduction


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
@pytest.mark.parametrize("copies", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(3))
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
