"""One module of a program, read."""

from replicate.migrate.bindings import Bindings
from replicate.migrate.source import Source
from replicate.migrate.uses import uses_in


class Module:
    """A module, with its uses of old names."""

    def __init__(self, text: str) -> None:
        """Reads a module.

        Raises:
          UnreadableError: The text is not Python 3.
        """
        self.source = Source(text)
        self.bindings = Bindings(self.source)
        self.uses = uses_in(self.source, self.bindings)
