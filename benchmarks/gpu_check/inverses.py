"""K-FAC's inverses, computed on the first device and judged by NumPy in float64.

M has the eigenvalues 1 to 10⁻⁸, so the damping d is the condition: M + d·I has about 1/d. Each
inverse X is judged by its residual, the largest entry of |(M + d·I) X − I|. Rounding errors of
float32 allow some multiple of ε/d. Matrices that are indefinite or not finite have no residual:
for them the result must be finite.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.gpu_check.machine import Devices
from benchmarks.gpu_check.outcome import Outcome, Table, judge
from kfac.config import INVERSE_METHODS
from kfac.fisher_factors.kept import Damping, MatrixSlot, refresh_slots
from kfac.linalg.damped_functions import INVERSE
from kfac.state import assign_all

v1 = tf.compat.v1

SIZES = (10, 33, 128, 321, 512)
"""Rows of the matrices. Cholesky inverts those of more than 320 rows by blocks."""

DAMPINGS = (1e-1, 1e-4)
"""A good and a bad condition."""

LIMIT = 50.0
"""Largest accepted residual, in multiples of ε/d, without TensorFloat-32.

Some three times the largest one on a CPU, 14.3, which is that of "newton_schulz".
"""

EPSILON = float(np.finfo(np.float32).eps)


class Inversion:
    """A function of M + d·I on a device, in a variable, as K-FAC's factors keep it.

    Attributes:
      failures: First attempts that failed so far, after which Cholesky in float64 took over.
    """

    failures = 0

    def __init__(self, method: str, size: int, device: str) -> None:
        self.matrix = v1.placeholder(tf.float32, [size, size])
        self.damping = v1.placeholder(tf.float32, [])
        name = f"{method}_{size}"
        damping = Damping(name, lambda: {name: self.damping})
        slot = MatrixSlot(INVERSE, damping)
        with v1.device(device):
            slot.make_variables([size, size], tf.float32, device)
            ways = {"auto": "cholesky", "eigh": None}
            changes = refresh_slots.function(
                self.matrix, [slot.variables], [self.damping],
                functions=[INVERSE], method=ways.get(method, method), dtype=tf.float32,
            )  # fmt: skip
            self.update = assign_all(changes)
            self.inverse = slot.read()
            self.rare_paths = slot.read_rare_paths()

    def run(self, session: Any, matrix: np.ndarray, damping: float) -> np.ndarray:
        """Returns the inverse, and counts first attempts that failed."""
        session.run(self.update, {self.matrix: matrix, self.damping: damping})
        inverse, rare_paths = session.run([self.inverse, self.rare_paths])
        self.failures = int(rare_paths[0])
        return inverse


class Residual(NamedTuple):
    """Residual of an inverse, in multiples of ε/d, of its rows; and if a first attempt failed."""

    size: float
    rows: int
    is_retried: bool


def invert(
    devices: Devices,
    methods: Sequence[str] = INVERSE_METHODS,
    sizes: Sequence[int] = SIZES,
) -> Outcome:
    """Inverts on a GPU with and without TensorFloat-32, on a CPU without.

    Only the inverses without TensorFloat-32 have a limit. With it, an inverse may be as coarse as
    the products that it is made of, so the report shows it and does not judge it.
    """
    ways = (False, True) if devices.are_gpus else (False,)
    found: dict[tuple[str, float, bool], list[Residual]] = {}
    not_finite: list[str] = []
    with tf.Graph().as_default(), v1.Session() as session:
        cases = [
            (method, size, Inversion(method, size, devices.names[0]))
            for method, size in itertools.product(methods, sizes)
        ]
        session.run(v1.global_variables_initializer())
        for way in ways:
            tf.config.experimental.enable_tensor_float_32_execution(way)
            for (method, size, inversion), damping in itertools.product(cases, DAMPINGS):
                residual = _residual(session, inversion, size, damping)
                found.setdefault((method, damping, way), []).append(residual)
        for method, size, inversion in cases:
            not_finite += [f"{method} of {each}" for each in _not_finite(session, inversion, size)]
    judged = {key: residuals for key, residuals in found.items() if not key[2]}
    worst, (method, damping, _) = max((max(each), key) for key, each in judged.items())
    summary = (
        f"largest residual {worst.size:.1f} ε/d ({method}, {worst.rows} rows, d = {damping:g}), "
        f"limit {LIMIT:g} ε/d"
    )
    if not_finite:
        summary += f"; not finite: {', '.join(not_finite)}"
    # A comparison with NaN is never within the limit.
    within = all(each.size <= LIMIT for residuals in judged.values() for each in residuals)
    return judge(within and not not_finite, summary, _table(found, ways))


def _table(found: Mapping[tuple[str, float, bool], Sequence[Residual]], ways: Any) -> Table:
    heads = ("largest residual, ε/d", "its rows", "retried")
    columns = ["method", "d", *heads, *(f"{h}, TensorFloat-32" for h in heads if ways[1:])]
    rows: dict[tuple[str, float], list[float]] = {}
    for (method, damping, _), residuals in found.items():
        worst, retried = max(residuals), sum(each.is_retried for each in residuals)
        rows.setdefault((method, damping), []).extend([worst.size, worst.rows, retried])
    return Table("Inverses with damping d", columns, [[*key, *row] for key, row in rows.items()])


def _residual(session: Any, inversion: Inversion, size: int, damping: float) -> Residual:
    matrix = second_moment(size)
    failures = inversion.failures
    inverse = inversion.run(session, matrix, damping)
    damped = matrix.astype(np.float64) + np.float32(damping) * np.eye(size)
    residual = float(np.abs(damped @ inverse - np.eye(size)).max())
    return Residual(residual * damping / EPSILON, size, inversion.failures > failures)


def _not_finite(session: Any, inversion: Inversion, size: int) -> Iterator[str]:
    """Yields the matrices without an inverse for which the result is not finite."""
    indefinite = second_moment(size) - 0.5 * np.eye(size, dtype=np.float32)
    bad = {"an indefinite": indefinite, "a NaN": np.full([size, size], np.nan, np.float32)}
    for kind, matrix in bad.items():
        if not np.isfinite(inversion.run(session, matrix, DAMPINGS[0])).all():
            yield f"{kind} matrix with {size} rows"


def second_moment(size: int) -> np.ndarray:
    """Returns a symmetric float32 matrix with eigenvalues from 1 to 10⁻⁸."""
    basis = np.linalg.qr(np.random.default_rng(size).normal(size=[size, size]))[0]
    matrix = (basis * np.logspace(0, -8, size)) @ basis.T
    return (0.5 * (matrix + matrix.T)).astype(np.float32)
