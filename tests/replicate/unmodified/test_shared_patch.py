"""Attributes that are replaced while anybody needs it."""

import types

from replicate.unmodified.shared_patch import SharedPatch


def test_attributes_are_replaced_until_the_last_context_is_left():
    owner = types.SimpleNamespace(kept=1)
    patch = SharedPatch(lambda: (owner, {"kept": 2, "new": 3}))
    with patch.entered():
        with patch.entered():
            assert vars(owner) == {"kept": 2, "new": 3}
        assert vars(owner) == {"kept": 2, "new": 3}
    assert vars(owner) == {"kept": 1}
