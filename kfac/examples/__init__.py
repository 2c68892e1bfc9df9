"""kfac.examples of tensorflow/kfac: the import raises an error that says what to use instead."""

from kfac.old_programs.look_ups import refuse_import

refuse_import(__name__)
