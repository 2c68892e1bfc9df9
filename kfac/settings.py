"""Settings of K-FAC's optimizers: each with its meaning, its default and its check.

The constructors of the optimizers take their defaults from here, and so do `kfac.for_canned`,
`kfac.adaptive` and `kfac.keras.Kfac`. `ADAPTIVE` and `CANNED` are the settings that the former two
recommend. Settings of a layer collection are in `kfac.config`.
"""

import dataclasses
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kfac._types import DType, Scalar, Variable
from kfac.arguments import check_number, check_period

__all__ = ["ADAPTIVE", "CANNED", "KfacSettings"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


@typing.final
@dataclasses.dataclass(frozen=True, kw_only=True)
class KfacSettings:
    """Settings of one optimizer, under the names of the arguments of its constructor.

    `invert_every` and those below it are of optimizers that update the curvature by themselves.

    Attributes:
      learning_rate: α > 0; None, and only None, with the "qmodel" types.
      damping: λ > 0.
      cov_ema_decay: Weight of the past in the moving averages per step, in [0, 1]; raised to the
        power `cov_update_every` for each update.
      momentum: β ≥ 0. None, or the number 0, means none, and keeps no velocities. Must be None
        with "qmodel".
      momentum_type: One of `MOMENTUM_TYPES`.
      use_weight_decay: True if the weights decay, by α·weight_decay_coeff of them each step.
      weight_decay_coeff: Share of a weight that decays in a step, over the learning rate.
      qmodel_update_rescale: Multiplies the step of the "qmodel" types; None means 1.
      norm_constraint: c > 0 bounds the squared Fisher norm of a step, or None. Must be None with
        the "qmodel" types.
      name: Name of the velocities and name scope of ops.
      estimation_mode: One of `kfac.estimator.ESTIMATION_MODES`; see `FisherEstimator`.
      colocate_gradients_with_ops: True to compute statistics and the quadratic model's products
        where the forward pass was. For gradients `compute_gradients` has its own.
      batch_size: Examples over all towers of this graph; needed for `compute_params_stats`.
        The "qmodel" types otherwise count the rows of the first loss's inputs.
      placement_strategy: None spreads the work over devices by cost, "round_robin" in turn.
      compute_params_stats: True to serve `params_stats`.
      adapt_damping: True if λ adapts to how well the quadratic model foretells the loss of
        the mini-batch. It is then in a variable; the given one, if it is a Variable.
      update_damping_immediately: True if it adapts right after a step, in the same run, which
        needs resource variables. Else it does so at the start of the next
        step, with `prev_train_batch`; inverses computed in that step use λ from before.
      is_chief: True if this process adapts it, False if it only has the variables.
      min_damping: Least λ, not counting `l2_reg`.
      l2_reg: Coefficient c of a penalty ½c|θ|² that is part of the loss. λ includes it.
      damping_adaptation_decay: ω; λ changes by the factor ω^interval or its inverse.
      damping_adaptation_interval: Steps from one adaptation to the next.
      damping_decrease_rho_threshold: λ falls above this ratio ρ of the changes of the loss and
        of its model.
      damping_increase_rho_threshold: λ rises below it.
      precon_damping_mult: The preconditioner's damping is this multiple of λ.
      use_passed_loss: True if the loss before a step is the passed one, not `loss_fn`'s.
      print_logs: True to write a line to the log at each adaptation.
      dtype: Dtype of the variables of damping and quadratic model.
      cov_devices: Devices for the moving averages; none means those of the layers.
      inv_devices: Devices for the inverses; none means those of the layers.
      trans_devices: Devices for products with blocks; none means where the inverses are.
      max_damping: Largest adapted λ, or None.
      calibrate_damping: True if `damping` is relative: at the first step adapted λ becomes
        `damping` times the mean eigenvalue of the undamped blocks.
      rejection_rho_threshold: A step that is judged below this ρ is taken back, if not None. If
        more follow that are taken back, each of them doubles λ at least, unless
        `damping_adaptation_decay` is 1.
      include_damping_in_qmodel_change: True if λ counts in the model's change that the loss is
        compared with, and not `l2_reg` only. Of no effect with "adam".
      decays: Returns True for a variable whose weights decay, such as for kernels but not for
        biases; None means that all do. Of no effect without `use_weight_decay`.
      invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
        Variable [], or a function that returns one of these.
      cov_update_every: Steps between two updates of the averages, ≥ 1.
      num_burnin_steps: Number of runs at the beginning that only update the averages, giving
        all batches the same weight. Weights, velocities, `counter` and the global step stay as
        they are. Here also where a wrapper calls `apply_gradients`.
      spread_inverses: True to compute all inverses at the first step, and from then on some
        of them in each step, so that no step pays for all: each is computed every
        `invert_every` steps, which must be an int then.
      spread_first_inverses: True to spread the first inverses like the later ones, for a fast
        first step on large networks. Needs `spread_inverses`. Until both of its factors are
        inverted, a layer moves along its scaled gradient, see `KfacOptimizer`.
      inverse_delay: d, steps from the averages that inverses are computed from to the first use
        of these inverses, ≥ 0 and < `invert_every`, which must be an int for d > 0. With 0 a
        step computes inverses for itself. Above 0 they are computed from a copy of the averages
        beside the next d steps, which use the old ones, in a thread that monitored sessions,
        such as an Estimator's, start; in other sessions
        `tf.compat.v1.train.start_queue_runners` does. Without the thread the step that first
        uses them computes them. The numbers are the same in all cases. The first step computes
        its inverses for itself.
      early_refresh: True to update averages and inverses at the steps 1, 2, 4, 8, …, too, as long
        as these are below their periods, for long periods: those of the first step, whose weights
        are random, soon say little. Does not go with `spread_inverses` or `inverse_delay`.
    """

    learning_rate: Scalar | None
    damping: Scalar
    cov_ema_decay: Scalar = 0.95
    momentum: Scalar | None = 0.9
    momentum_type: str = "adam"
    use_weight_decay: bool = False
    weight_decay_coeff: Scalar = 0.1
    qmodel_update_rescale: Scalar | None = None
    norm_constraint: Scalar | None = None
    name: str = "KFAC"
    estimation_mode: str = "gradients"
    colocate_gradients_with_ops: bool = True
    batch_size: Scalar | None = None
    placement_strategy: str | None = None
    compute_params_stats: bool = False
    adapt_damping: bool = False
    update_damping_immediately: bool = True
    is_chief: bool = True
    min_damping: float = 1e-8
    l2_reg: float = 0.0
    damping_adaptation_decay: float = 0.95
    damping_adaptation_interval: int = 5
    damping_decrease_rho_threshold: float = 0.75
    damping_increase_rho_threshold: float = 0.25
    precon_damping_mult: Scalar = 1.0
    use_passed_loss: bool = True
    print_logs: bool = False
    dtype: DType = "float32"
    cov_devices: Sequence[str] | None = None
    inv_devices: Sequence[str] | None = None
    trans_devices: Sequence[str] | None = None
    max_damping: float | None = None
    calibrate_damping: bool = False
    rejection_rho_threshold: float | None = None
    include_damping_in_qmodel_change: bool = False
    decays: Callable[[Variable], bool] | None = None
    invert_every: Scalar = 10
    cov_update_every: int = 1
    num_burnin_steps: int = 0
    spread_inverses: bool = False
    spread_first_inverses: bool = False
    inverse_delay: int = 0
    early_refresh: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "KfacSettings":
        """Returns the settings that are among the arguments of a constructor, by name.

        Raises:
          ValueError: As in the constructor.
        """
        names = [field.name for field in dataclasses.fields(cls) if field.name in arguments]
        return cls(**{name: arguments[name] for name in names})

    def __post_init__(self) -> None:
        """Checks the values, but for those that a part of the optimizer chooses a kind by.

        Raises:
          ValueError: One of them is out of its range, or does not go with another.
        """
        check_number("damping", self.damping, "> 0", lambda x: x > 0)
        check_number("cov_ema_decay", self.cov_ema_decay, "in [0, 1]", lambda x: 0 <= x <= 1)
        check_number("weight_decay_coeff", self.weight_decay_coeff, ">= 0", lambda x: x >= 0)
        check_number("l2_reg", self.l2_reg, ">= 0", lambda x: x >= 0)
        check_number("precon_damping_mult", self.precon_damping_mult, "> 0", lambda x: x > 0)
        self._check_adaptation()
        self._check_step()

    def _check_step(self) -> None:
        rescale = self.qmodel_update_rescale
        check_number("learning_rate", self.learning_rate, "> 0", lambda x: x > 0)
        check_number("momentum", self.momentum, ">= 0, or None", lambda x: x >= 0)
        check_number("norm_constraint", self.norm_constraint, "> 0, or None", lambda x: x > 0)
        check_number("qmodel_update_rescale", rescale, "> 0, or None", lambda x: x > 0)

    def _check_adaptation(self) -> None:
        minimum, fall = self.least_damping, self.damping_decrease_rho_threshold
        rise, rejection = self.damping_increase_rho_threshold, self.rejection_rho_threshold
        decay = self.damping_adaptation_decay
        check_period("damping_adaptation_interval", self.damping_adaptation_interval)
        check_number("damping_adaptation_decay", decay, "in (0, 1]", lambda x: 0 < x <= 1)
        check_number("min_damping + l2_reg", minimum, ">= 0", lambda x: x >= 0)
        accepted = "> min_damping + l2_reg"
        check_number("max_damping", self.max_damping, accepted, lambda x: x > minimum)
        accepted = f"<= damping_decrease_rho_threshold={fall!r}"
        check_number("damping_increase_rho_threshold", rise, accepted, lambda x: x <= fall)
        check_number("rejection_rho_threshold", rejection, "finite", lambda _: True)
        if rejection is not None and not self.update_damping_immediately:
            raise ValueError(
                f"Cannot set up K-FAC: rejection_rho_threshold={rejection!r} with "
                "update_damping_immediately=False. A step can be taken back only if the loss is "
                "computed right after it: use update_damping_immediately=True, or None."
            )

    @property
    def least_damping(self) -> float:
        """The least λ, `l2_reg` included."""
        return self.min_damping + self.l2_reg

    def chosen(self) -> dict[str, Any]:
        """Returns the settings that have no default, or another value, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }


ADAPTIVE = KfacSettings(
    learning_rate=None,
    damping=1.0,
    momentum=None,
    momentum_type="qmodel",
    adapt_damping=True,
    calibrate_damping=True,
    min_damping=1e-3,
    damping_adaptation_decay=0.9,
    damping_adaptation_interval=1,
    rejection_rho_threshold=0.0,
    invert_every=5,
)
"""Settings by which no step is trusted that raises the loss of its batch, see `kfac.adaptive`.

The first steps of a ReLU network leave the range of the quadratic model: with a damping of a tenth
of the mean curvature it foretells a fall of most of the loss, and the loss more than doubles. If
that is noticed some steps later only, each of these steps is longer than the one before. So every
step is judged, and undone if need be. The curvature of one batch says little about others, so the
damping stays above a limit. Optimizers of canned estimators and of Keras take these settings, too.
"""

CANNED = KfacSettings(
    learning_rate=0.1,
    damping=0.1,
    momentum_type="regular",
    norm_constraint=1e-3,
    cov_update_every=10,
)
"""Settings that did well on the problems of `benchmarks.canned_kfac`, see `kfac.for_canned`."""


def documents_settings(function: _Function) -> _Function:
    """Adds to the `Args` of a function's docstring those of its arguments that are settings.

    An argument that the docstring describes keeps its text. Each other one gets the text of the
    attribute of `KfacSettings` that has its name.
    """
    if function.__doc__ is None:  # Python was told to drop docstrings.
        return function
    before, own, after = _parts(function.__doc__, "Args")
    settings = _parts(str(KfacSettings.__doc__), "Attributes")[1]
    parameters = inspect.signature(function).parameters.values()
    names = [f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name for p in parameters]
    texts = [{**settings, **own}.get(name, "") for name in names]
    function.__doc__ = "".join([before, *texts, after])
    return function


def lists_settings(place: str, settings: KfacSettings) -> Callable[[_Function], _Function]:
    """Adds the values of recommended settings to a docstring, where a sentence ends in `place`."""

    def add(function: _Function) -> _Function:
        values = ", ".join(f"`{name}={value!r}`" for name, value in settings.chosen().items())
        mention = rf"^( *)(.*`{re.escape(place)}`)\.$"
        lines = textwrap.fill(values, 100, initial_indent=r"\1", subsequent_indent=r"\1")
        if function.__doc__ is not None:
            text = inspect.cleandoc(function.__doc__)
            function.__doc__ = re.sub(mention, rf"\1\2:\n{lines}.", text, flags=re.MULTILINE)
        return function

    return add


def _parts(docstring: str, section: str) -> tuple[str, dict[str, str], str]:
    """Returns what is before a section's entries, the entries by name, and what is after them."""
    text = inspect.cleandoc(docstring) + "\n"
    before, entries, after = re.split(rf"(?<=\n{section}:\n)((?:  .*\n)+)", text, maxsplit=1)
    found = re.findall(r"^  (\*{0,2}\w+):.*\n(?:    .*\n)*", entries, re.MULTILINE)
    texts = re.split(r"^(?=  \S)", entries, flags=re.MULTILINE)[1:]
    return before, dict(zip(found, texts, strict=True)), after
