"""K-FAC's inverses, computed on the first device and judged by NumPy in float64.

M has the eigenvalues 1 to 10⁻⁸, so the damping d is the condition: M + d·I has about 1/d. Each
inverse X is judged by its residual, the largest entry of |(M + d·I) X − I|. Rounding errors of
float32 allow some multiple of ε/d. Matrices that are indefinite or not finite have no residual:
for them the result must be finite.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.gpu_check.devices import Devices
from benchmarks.gpu_check.outcome import Outcome, Table, judge
from kfac.config import INVERSE_METHODS, CurvatureConfig
from kfac.fisher_factors.kept_functions import KeptFunctions
from kfac.fisher_factors.slot import Damping
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


class Residual(NamedTuple):
    """Residual of an inverse.

    Attributes:
      method: Way to invert.
      size: Rows.
      damping: d.
      residual: Largest entry of |(M + d·I) X − I|.
      retries: 1 if the first attempt failed, and Cholesky in float64 had to take over.
    """

    method: str
    size: int
    damping: float
    residual: float
    retries: int

    @property
    def relative(self) -> float:
        """Residual in multiples of ε/d."""
        return self.residual * self.damping / EPSILON


class Inversion:
    """A function of M + d·I on a device, in a variable, as K-FAC's factors keep it."""

    def __init__(self, method: str, size: int, device: str) -> None:
        self.matrix = v1.placeholder(tf.float32, [size, size])
        self.damping = v1.placeholder(tf.float32, [])
        name = f"{method}_{size}"
        damping = Damping(name, lambda: {name: self.damping})
        functions = KeptFunctions(name, CurvatureConfig(inverse_method=method), tf.float32)
        functions.register(INVERSE, damping)
        with v1.device(device):
            functions.slots[0].make_variables([size, size], tf.float32, device)
            self.update = assign_all(functions.updated(self.matrix, {name: self.damping}))
            self.inverse = functions.read(INVERSE, damping)
            self.rare_paths = functions.slots[0].read_rare_paths()

    def run(self, session: Any, matrix: np.ndarray, damping: float) -> tuple[np.ndarray, int]:
        """Returns the inverse, and the number of first attempts that failed so far."""
        session.run(self.update, {self.matrix: matrix, self.damping: damping})
        inverse, rare_paths = session.run([self.inverse, self.rare_paths])
        return inverse, int(rare_paths[0])


def invert(
    devices: Devices,
    methods: Sequence[str] = INVERSE_METHODS,
    sizes: Sequence[int] = SIZES,
) -> Outcome:
    """Inverts on a GPU with and without TensorFloat-32, on a CPU without.

    Only the inverses without TensorFloat-32 have a limit. With it, an inverse may be as coarse as
    the products that it is made of, so the report shows it and does not judge it.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        inversions = {
            (method, size): Inversion(method, size, devices.names[0])
            for method, size in itertools.product(methods, sizes)
        }
        session.run(v1.global_variables_initializer())
        found = {}
        for tensor_float_32 in (False, True) if devices.are_gpus else (False,):
            tf.config.experimental.enable_tensor_float_32_execution(tensor_float_32)
            found[tensor_float_32] = _residuals(session, inversions)
        not_finite = _not_finite(session, inversions)
    worst = max(found[False], key=lambda each: each.relative)
    is_ok = not not_finite and all(each.relative <= LIMIT for each in found[False])
    summary = (
        f"largest residual {worst.relative:.1f} ε/d ({worst.method}, {worst.size} rows, "
        f"d = {worst.damping:g}), limit {LIMIT:g} ε/d"
    )
    if not_finite:
        summary += f"; not finite: {', '.join(not_finite)}"
    return judge(is_ok, summary, *(_table(found, methods, damping) for damping in DAMPINGS))


def _residuals(session: Any, inversions: Mapping[tuple[str, int], Inversion]) -> list[Residual]:
    residuals = []
    for (method, size), inversion in inversions.items():
        matrix = second_moment(size)
        failures = 0
        for damping in DAMPINGS:
            before = failures
            inverse, failures = inversion.run(session, matrix, damping)
            damped = matrix.astype(np.float64) + np.float32(damping) * np.eye(size)
            residual = float(np.abs(damped @ inverse - np.eye(size)).max())
            residuals.append(Residual(method, size, damping, residual, failures - before))
    return residuals


def _not_finite(session: Any, inversions: Mapping[tuple[str, int], Inversion]) -> list[str]:
    """Returns the matrices without an inverse for which a result is not finite."""
    wrong = []
    for (method, size), inversion in inversions.items():
        indefinite = second_moment(size) - 0.5 * np.eye(size, dtype=np.float32)
        bad = {"indefinite": indefinite, "NaN": np.full([size, size], np.nan, np.float32)}
        for kind, matrix in bad.items():
            inverse, _ = inversion.run(session, matrix, DAMPINGS[0])
            if not np.isfinite(inverse).all():
                wrong.append(f"{method} of an {kind} matrix with {size} rows")
    return wrong


def second_moment(size: int) -> np.ndarray:
    """Returns a symmetric float32 matrix with eigenvalues from 1 to 10⁻⁸."""
    basis = np.linalg.qr(np.random.default_rng(size).normal(size=[size, size]))[0]
    matrix = (basis * np.logspace(0, -8, size)) @ basis.T
    return (0.5 * (matrix + matrix.T)).astype(np.float32)


def _table(
    found: Mapping[bool, Sequence[Residual]], methods: Sequence[str], damping: float
) -> Table:
    rows: list[list[str | int | float]] = []
    for method in methods:
        chosen = [
            [each for each in residuals if (each.method, each.damping) == (method, damping)]
            for residuals in found.values()
        ]
        row: list[str | int | float] = [method]
        for residuals in chosen:
            worst = max(residuals, key=lambda each: each.relative)
            row += [worst.relative, worst.size, sum(each.retries for each in residuals)]
        rows.append(row)
    heads = ("largest residual, ε/d", "its rows", "retried")
    columns = ["method", *heads]
    if True in found:
        columns += [f"{head}, TensorFloat-32" for head in heads]
    return Table(f"Inverses with damping d = {damping:g}", columns, rows)
