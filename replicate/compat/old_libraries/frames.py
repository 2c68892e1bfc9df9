"""pandas: functions that are gone, and what old attributes of frames and series are."""

import importlib
from collections.abc import Callable
from typing import Any


def _pandas() -> Any:
    return importlib.import_module("pandas")


class _ByLabelOrPosition:
    """`.ix`: labels where the index has them, else positions."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._data.loc[key]
        except (KeyError, TypeError):
            return self._by_position(self._data)[self._positions(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        try:
            _ = self._data.loc[key]
        except (KeyError, TypeError):
            self._by_position(self._data)[self._positions(key)] = value
        else:
            self._data.loc[key] = value

    @staticmethod
    def _by_position(data: Any) -> Any:
        return data.iloc

    def _positions(self, key: Any) -> Any:
        """Returns a key by positions: names of columns and rows become theirs."""
        if not isinstance(key, tuple):
            return self._position(key, 0)
        return tuple(self._position(each, axis) for axis, each in enumerate(key))

    def _position(self, key: Any, axis: int) -> Any:
        labels = self._data.axes[axis]
        if isinstance(key, list):
            return [self._position(each, axis) for each in key]
        if isinstance(key, str):
            return labels.get_loc(key)
        if isinstance(key, slice) and isinstance(key.stop, str):
            first = 0 if key.start is None else labels.get_loc(key.start)
            return slice(first, labels.get_loc(key.stop) + 1, key.step)
        return key


def by_label_or_position(data: Any) -> _ByLabelOrPosition:
    """Returns `.ix` of a frame or a series."""
    return _ByLabelOrPosition(data)


def as_matrix(data: Any) -> Callable[..., Any]:
    """Returns the method `as_matrix(columns=None)`."""
    return lambda columns=None: (data if columns is None else data[columns]).to_numpy()


def append(data: Any) -> Callable[..., Any]:
    """Returns the method `append` of a frame or a series, which makes a longer one."""

    def appended(
        other: Any, ignore_index: bool = False, verify_integrity: bool = False, sort: bool = False
    ) -> Any:
        pandas = _pandas()
        if isinstance(other, dict):
            other = pandas.Series(other)
        if data.ndim == 2 and isinstance(other, pandas.Series):
            if not ignore_index and other.name is None:
                raise TypeError("append takes a series without a name with ignore_index=True.")
            other = other.to_frame().T.infer_objects()
        others = list(other) if isinstance(other, list | tuple) else [other]
        if others and data.ndim == 2 and not isinstance(others[0], pandas.DataFrame):
            others = [pandas.DataFrame(others)]
        options = {"ignore_index": ignore_index, "verify_integrity": verify_integrity}
        return pandas.concat([data, *others], **options, sort=sort)

    return appended


def get_value(data: Any) -> Callable[..., Any]:
    """Returns the method `get_value(index, col, takeable=False)`; takeable is by position."""
    if data.ndim == 1:
        return lambda label, takeable=False: data.iloc[label] if takeable else data.loc[label]
    return lambda index, col, takeable=False: (
        data.iat[index, col] if takeable else data.at[index, col]
    )


def set_value(data: Any) -> Callable[..., Any]:
    """Returns the method `set_value`, which sets one value and returns the data."""

    def set_in_series(label: Any, value: Any, takeable: bool = False) -> Any:
        (data.iat if takeable else data.at)[label] = value
        return data

    def set_in_frame(index: Any, col: Any, value: Any, takeable: bool = False) -> Any:
        (data.iat if takeable else data.at)[index, col] = value
        return data

    return set_in_series if data.ndim == 1 else set_in_frame


def sort(data: Any) -> Callable[..., Any]:
    """Returns the method `sort(columns=None, …)`, which sorts by columns or by the index."""

    def sorted_by(columns: Any = None, axis: int = 0, ascending: Any = True, **options: Any) -> Any:
        if columns is None:
            return data.sort_index(axis=axis, ascending=ascending, **options)
        return data.sort_values(columns, axis=axis, ascending=ascending, **options)

    return sorted_by


def renamed(new: str) -> Callable[[Any], Any]:
    """Returns a function that reads the attribute of another name."""
    return lambda value: getattr(value, new)


def rolling(name: str) -> Callable[..., Any]:
    """Returns `pd.rolling_mean` and its kin: a statistic of each window."""

    def over_windows(arg: Any, window: int, min_periods: Any = None, **options: Any) -> Any:
        center = options.pop("center", False)
        windows = arg.rolling(window, min_periods=min_periods, center=center)
        return getattr(windows, name)(**options)

    return over_windows


rolling_mean = rolling("mean")
rolling_std = rolling("std")
rolling_sum = rolling("sum")
rolling_max = rolling("max")
rolling_min = rolling("min")
rolling_median = rolling("median")
rolling_var = rolling("var")


def read_csv(*args: Any, **options: Any) -> Any:
    """Reads a CSV file, with the old options for lines that are wrong."""
    is_wrong_fatal = options.pop("error_bad_lines", True)
    is_warned = options.pop("warn_bad_lines", True)
    if not is_wrong_fatal:
        options.setdefault("on_bad_lines", "warn" if is_warned else "skip")
    if options.pop("squeeze", False):
        return _pandas().read_csv(*args, **options).squeeze("columns")
    return _pandas().read_csv(*args, **options)
