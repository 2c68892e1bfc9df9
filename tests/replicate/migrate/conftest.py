"""Tests of the rewriting tool are left out where libcst, which it needs, is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("libcst") else ["test_*.py"]
