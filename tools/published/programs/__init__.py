"""The programs of the table, by their subject."""

from tools.published.program import Program
from tools.published.programs import images, language

PROGRAMS: tuple[Program, ...] = (*language.PROGRAMS, *images.PROGRAMS)
"""All programs, in the order of the table."""
