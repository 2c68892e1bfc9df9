"""The end of a training program that a launcher starts as a task of a cluster.

Programs of this directory import it only where they run: they are no package, and Python finds it
beside the program that it was started with.
"""

import os
import sys

import tensorflow as tf

import replicate


def run_as_task(main):
    """Calls `main` with the words of the command line; a lost cluster ends the process at once."""
    print("imported", flush=True)
    tf.compat.v1.logging.set_verbosity(os.environ.get("VERBOSITY", "ERROR"))
    try:
        main(*sys.argv[1:])
    except replicate.ClusterError as error:
        print(error, file=sys.stderr, flush=True)
        error.exit()
