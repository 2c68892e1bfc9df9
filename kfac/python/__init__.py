"""kfac.python of tensorflow/kfac: the import raises an error that says what to use instead."""

from kfac.moved_names import refuse_import

refuse_import(__name__)
