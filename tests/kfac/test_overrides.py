from kfac.overrides import inherits


class Base:
    size = 1

    def first(self):
        """Returns nothing."""

    def second(self):
        """Returns nothing."""


class Own(Base):
    def second(self):
        """Returns nothing."""


def test_names_that_a_class_overrides():
    assert inherits(Base(), Base, "first", "second")
    assert inherits(Own(), Base, "first", "size")
    assert not inherits(Own(), Base, "first", "second")
