"""The programs of the table, by their subject."""

from tools.published.program import Program
from tools.published.programs import images, language, sequences, tables

PROGRAMS: tuple[Program, ...] = (
    *language.PROGRAMS,
    *sequences.PROGRAMS,
    *images.PROGRAMS,
    *tables.PROGRAMS,
)
"""All programs, in the order of the table."""
