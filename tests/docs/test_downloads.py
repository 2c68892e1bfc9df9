"""A notebook can be taken away: with its outputs, or as a program."""

import json

import pytest


@pytest.fixture(scope="module")
def downloads(load):
    return load("docs/_ext/downloads.py")


def test_files_are_the_program_and_the_outputs_without_stderr(downloads, tmp_path):
    source = tmp_path / "a.py"
    source.write_text("# %%\nprint('é')\n")
    figure = {"output_type": "display_data", "data": {"image/png": "AA"}, "metadata": {}}
    printed = {"output_type": "stream", "name": "stdout", "text": ["é\n"]}
    noise = {"output_type": "stream", "name": "stderr", "text": ["oneDNN\n"]}
    words = {"cell_type": "markdown", "metadata": {}, "source": "# A"}
    code = {"cell_type": "code", "metadata": {}, "source": "print('é')", "execution_count": 1}
    rest = {"metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}
    cells = [words, {**code, "outputs": [noise, printed, figure]}]

    downloads.write(source, {"cells": cells, **rest}, tmp_path / "out")

    assert (tmp_path / "out" / "a.py").read_text() == source.read_text()
    assert json.loads((tmp_path / "out" / "a.ipynb").read_text()) == {
        "cells": [words, {**code, "outputs": [printed, figure]}],
        **rest,
    }
