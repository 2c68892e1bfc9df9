"""NumPy: functions that took more than they take today, and names without a public successor."""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

NINF = -np.inf
NZERO = -0.0
PZERO = 0.0


def asscalar(a: Any) -> Any:
    """Returns the only element of an array."""
    return np.asarray(a).item()


def asfarray(a: Any, dtype: Any = np.float64) -> Any:
    """Returns an array of floats; a type of whole numbers becomes float64."""
    kind = np.dtype(dtype)
    return np.asarray(a, kind if kind.kind in "fc" else np.float64)


def issubsctype(arg1: Any, arg2: Any) -> bool:
    """Returns True if the type of the first is that of the second, or below it."""
    first = arg1.dtype if isinstance(arg1, np.ndarray) else arg1
    return bool(np.issubdtype(first, arg2))


def _types(*names: str) -> list[type]:
    return [getattr(np, name) for name in names if hasattr(np, name)]


sctypes = {
    "int": _types("int8", "int16", "int32", "int64"),
    "uint": _types("uint8", "uint16", "uint32", "uint64"),
    "float": _types("float16", "float32", "float64", "longdouble"),
    "complex": _types("complex64", "complex128", "clongdouble"),
    "others": [bool, object, bytes, str, np.void],
}


class _Casts:
    """`np.cast`: for a type, a function that makes arrays of it."""

    def __getitem__(self, dtype: Any) -> Callable[[Any], Any]:
        return lambda x: np.asarray(x).astype(np.dtype(dtype))


cast = _Casts()


def msort(a: Any) -> Any:
    """Returns an array sorted along its first axis."""
    return np.sort(a, axis=0)


def find_common_type(array_types: Any, scalar_types: Any) -> np.dtype[Any]:
    """Returns the type that holds values of all types; those of scalars count by their kind."""
    arrays = [np.dtype(each) for each in array_types]
    scalars = [np.dtype(each) for each in scalar_types]
    if not arrays or not scalars:
        return np.result_type(*arrays, *scalars)
    of_arrays, of_scalars = np.result_type(*arrays), np.result_type(*scalars)
    is_higher = "?buifcmMOSUV".find(of_scalars.kind) > "?buifcmMOSUV".find(of_arrays.kind)
    return of_scalars if is_higher else of_arrays


def disp(mesg: Any, device: Any = None, linefeed: bool = True) -> None:
    """Prints a message."""
    print(mesg, file=device or sys.stdout, end="\n" if linefeed else "")


def random_integers(low: int, high: int | None = None, size: Any = None) -> Any:
    """Returns random whole numbers from low to high, both included; from 1 if high is None."""
    first, last = (1, low) if high is None else (low, high)
    return np.random.randint(first, last + 1, size)


def fromstring(
    string: Any, dtype: Any = float, count: int = -1, sep: str = "", **others: Any
) -> Any:
    """Returns the numbers in a text, or with sep="" those whose bytes the text has, as a copy."""
    if sep:
        return np.fromstring(string, dtype, count, sep=sep, **others)
    data = string.encode("latin-1") if isinstance(string, str) else string
    return np.frombuffer(data, dtype, count, **others).copy()


def _of_unequal_rows(make: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a function that makes an array take rows of unequal lengths, as an array of objects."""

    @functools.wraps(make)
    def made(value: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return make(value, *args, **kwargs)
        except ValueError as error:
            if args or kwargs.get("dtype") is not None or "inhomogeneous" not in str(error):
                raise
            return make(value, **{**kwargs, "dtype": object})

    return made


array = _of_unequal_rows(np.array)
asarray = _of_unequal_rows(np.asarray)
asanyarray = _of_unequal_rows(np.asanyarray)


@functools.wraps(np.sum)
def sum_of(a: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the sum of an array's elements, or of what a generator yields."""
    return sum(a) if isinstance(a, types.GeneratorType) else np.sum(a, *args, **kwargs)


def save(file: Any, arr: Any, allow_pickle: bool = True, **others: Any) -> None:
    """Writes an array, whose rows may be unequal, to a file."""
    np.save(file, asanyarray(arr), allow_pickle=allow_pickle, **_known(np.save, others))


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Writes arrays, whose rows may be unequal, to a file."""
    np.savez(file, *map(asanyarray, args), **{name: asanyarray(v) for name, v in kwds.items()})


def savez_compressed(file: Any, *args: Any, **kwds: Any) -> None:
    """Writes arrays, whose rows may be unequal, to a compressed file."""
    named = {name: asanyarray(value) for name, value in kwds.items()}
    np.savez_compressed(file, *map(asanyarray, args), **named)


def load(
    file: Any,
    mmap_mode: Any = None,
    allow_pickle: bool = True,
    fix_imports: bool = True,
    encoding: Any = "ASCII",
    **others: Any,
) -> Any:
    """Reads arrays from a file, with objects as NumPy did by default until version 1.16.

    Objects are pickled: reading them runs code that the file names. Those that Python 2 wrote are
    read by "latin1" if they are not in the encoding.
    """
    options = {"allow_pickle": allow_pickle, "fix_imports": fix_imports, **others}
    try:
        return np.load(file, mmap_mode, encoding=encoding, **options)
    except UnicodeError:
        if encoding != "ASCII":
            raise
        if hasattr(file, "seek"):
            file.seek(0)
        return np.load(file, mmap_mode, encoding="latin1", **options)


def _known(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options without `fix_imports`, which NumPy no longer takes for writing."""
    del function
    return {name: value for name, value in options.items() if name != "fix_imports"}
