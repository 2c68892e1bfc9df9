PROGRAM = """
import logging
from replicate.estimator.log import log

log.warning("told %s", "once")
log.info("told by request only")
assert not logging.root.handlers, "what a program does not ask for must not be configured"
"""


def test_logging_configures_nothing(run_python):
    done = run_python(PROGRAM)
    assert done.code == 0, done.err
    assert done.err.count("told once") == 1
    assert "by request" not in done.err
