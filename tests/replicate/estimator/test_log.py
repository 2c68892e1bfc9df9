import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import logging
    from replicate.estimator.log import log

    log.warning("told %s", "once")
    log.info("told by request only")
    assert not logging.root.handlers, "what a program does not ask for must not be configured"
    """
)


def test_logging_configures_nothing():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("told once") == 1
    assert "by request" not in done.stderr
