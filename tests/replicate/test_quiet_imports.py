import os

import pytest

from replicate.quiet_imports import without_chatter


def test_output_is_shown_only_after_an_error(capfd):
    with without_chatter():
        os.write(2, b"of no interest\n")

    def fail():
        os.write(2, b"of interest\n")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), without_chatter():
        fail()
    assert capfd.readouterr().err == "of interest\n"
