import os

import pytest

from replicate.quiet_imports import quiet_stderr


def test_output_is_shown_only_after_an_error(capfd):
    with quiet_stderr():
        os.write(2, b"of no interest\n")

    def fail():
        os.write(2, b"of interest\n")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), quiet_stderr():
        fail()
    assert capfd.readouterr().err == "of interest\n"
