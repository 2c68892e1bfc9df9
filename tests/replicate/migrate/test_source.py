"""Places in a text, before and after edits."""

import pytest

from replicate.migrate.source import Edit, Source, moved


@pytest.mark.parametrize(
    ("edit", "new", "rest"),
    [
        (Edit(4, 4, "é, "), "f(a,é, b)", "b)"),
        (Edit(2, 4, ""), "f(b)", "b)"),
        (Edit(4, 5, "cd"), "f(a,cd)", "cd)"),
        (Edit(5, 5, "="), "f(a,b=)", "b=)"),
    ],
)
def test_edits_that_end_at_a_place_move_it(edit, new, rest):
    assert Source("f(a,b)").edited([edit]) == new
    assert new.encode()[moved(4, [edit]) :].decode() == rest
