"""Attributes that are replaced while anybody needs it."""

import types

import pytest

from replicate.tower.shared_patch import SharedPatch


def test_attributes_are_replaced_until_the_last_context_is_left():
    owner = types.SimpleNamespace(kept=1)
    patch = SharedPatch(lambda: (owner, {"kept": 2, "new": 3}))
    with patch.entered():
        with patch.entered():
            assert vars(owner) == {"kept": 2, "new": 3}
        assert vars(owner) == {"kept": 2, "new": 3}
    assert vars(owner) == {"kept": 1}


def test_an_error_puts_them_back():
    owner = types.SimpleNamespace(kept=1)
    patch = SharedPatch(lambda: (owner, {"kept": 2}))
    with pytest.raises(KeyError), patch.entered():
        raise KeyError
    assert owner.kept == 1
    with patch.entered():
        assert owner.kept == 2
