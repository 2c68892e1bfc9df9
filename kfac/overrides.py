"""Attributes that a program's own classes override, which shortcuts must not pass over."""


def inherits(instance: object, base: type, *names: str) -> bool:
    """Returns True if the class of an instance overrides none of some attributes of a base."""
    return all(getattr(type(instance), name) is getattr(base, name) for name in names)
