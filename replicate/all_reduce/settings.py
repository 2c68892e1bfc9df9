"""AllReduce: the settings of training on many machines without parameter servers."""

import dataclasses
import math
from typing import Any, Literal, TypeAlias, final, get_args

from replicate.outer_step import check_outer_optimizer

Communication: TypeAlias = Literal["auto", "ring", "nccl"]
"""Way in which TensorFlow's collectives send: its own choice, a ring over gRPC, or NCCL."""


@final
@dataclasses.dataclass(frozen=True)
class AllReduce:
    """Settings of workers that each have all variables and add up their gradients in every step.

    With `every`, they make that many steps each with its own weights, and meet in a round: an outer
    optimizer gets the mean change of their weights as a gradient, and all go on from its result
    (DiLoCo, arXiv 2311.08105). A worker counts by the rows of its batches since the last round.

    Pass it as `RunConfig(train_distribute=replicate.AllReduce())`, with a TF_CONFIG that lists the
    workers and no parameter server. Without a cluster, or in a cluster of one, nothing is sent.

    Attributes:
      communication: "ring" sends over gRPC from the memory of the CPU. "nccl" sends from GPU to
        GPU, by NCCL; each worker then needs one. "auto" leaves the choice to TensorFlow.
      pack_bytes: Most bytes of a pack of gradients that is sent at once, ≥ 1; None sends each
        gradient by itself.
      timeout_secs: Seconds that a step waits for the slowest worker, > 0. Saving a checkpoint must
        take less.
      check_every: Steps between two checks that all workers have the same variables, ≥ 0; 0 for
        none.
      evaluates: True if the workers also evaluate, each its share of the batches. All of them then
        call `Estimator.evaluate` or `train_and_evaluate`, and there is no evaluator. An evaluation
        during training must take less than `timeout_secs`.
      every: Steps of each worker from one round to the next, ≥ 1; None to add up gradients in every
        step. The global step counts the steps of a worker, and checkpoints are saved in rounds.
      outer_optimizer: A `tf.compat.v1.train.Optimizer` or a function without arguments that makes
        one, for the step of a round. None for Nesterov's momentum of 0.9 with a rate of 0.7; a
        `GradientDescentOptimizer(1.0)` averages the weights.
      bits: Bits in which a round sends each change of a weight: 32, 16 (bfloat16), 8 or 4. What is
        lost by fewer than 32 is added to the changes of the next round.
      fragments: P, 1 to `every`: parts of the variables, each with its rounds at steps of its own,
        `every` steps apart. So P times fewer bytes are sent at once (Streaming DiLoCo, arXiv
        2501.18512, section 2). `outer_optimizer` must then be a function, called for each.
      delay: Steps, 0 to `every` - 1, that are made while the changes of a round are on their way,
        before the outer optimizer's result is taken.
      mixing: α in [0, 1): with a delay, a weight becomes α times the local weight plus 1 - α times
        the result. With 0 the local steps of the delay are dropped.
    """

    communication: Communication = "auto"
    pack_bytes: int | None = 8 << 20
    timeout_secs: float = 600.0
    check_every: int = 100
    evaluates: bool = False
    every: int | None = None
    outer_optimizer: Any = dataclasses.field(default=None, repr=False)
    bits: Literal[32, 16, 8, 4] = 32
    fragments: int = 1
    delay: int = 0
    mixing: float = 0.5

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
          ValueError: A setting is out of range, or two do not go together.
          TypeError: outer_optimizer is neither an optimizer nor a function.
        """
        choices = get_args(Communication)
        if self.communication not in choices:
            raise ValueError(
                f"AllReduce: communication must be one of {list(choices)}, got "
                f"{self.communication!r}."
            )
        if self.pack_bytes is not None and not _is_whole(self.pack_bytes, 1):
            raise ValueError(
                f"AllReduce: pack_bytes must be a whole number ≥ 1, or None not to pack; got "
                f"{self.pack_bytes!r}."
            )
        secs = self.timeout_secs
        if not isinstance(secs, int | float) or not 0 < secs < math.inf:
            raise ValueError(
                f"AllReduce: timeout_secs must be a finite number > 0, got {secs!r}. A step that "
                "waits for ever would hang when a worker is lost."
            )
        if not _is_whole(self.check_every, 0):
            raise ValueError(
                f"AllReduce: check_every must be a whole number ≥ 0, got {self.check_every!r}. "
                "0 stands for no checks."
            )
        if not isinstance(self.evaluates, bool):
            raise ValueError(f"AllReduce: evaluates must be True or False, got {self.evaluates!r}.")
        self._check_rounds()

    def __deepcopy__(self, memo: object) -> "AllReduce":
        """Returns itself: settings do not change, and an optimizer may belong to a graph."""
        return self

    def _check_rounds(self) -> None:
        every, outer, bits = self.every, self.outer_optimizer, self.bits
        if bits not in (32, 16, 8, 4):
            raise ValueError(f"AllReduce: bits must be 32, 16, 8 or 4, got {bits!r}.")
        if bits != 32 and every is None:
            raise ValueError(
                f"AllReduce: bits={bits} needs every=…: only changes of weights in rounds are sent "
                "in fewer bits than they have."
            )
        if every is not None and not _is_whole(every, 1):
            raise ValueError(
                f"AllReduce: every must be a whole number ≥ 1, or None to add up gradients in each "
                f"step; got {every!r}."
            )
        if every is not None and self.evaluates:
            raise ValueError(
                f"AllReduce: workers that meet every {every} steps cannot evaluate together. Leave "
                "out evaluates=True, and start an evaluator."
            )
        if outer is not None and every is None:
            raise ValueError(
                f"AllReduce: outer_optimizer={outer!r} needs every=…, the steps between two rounds "
                "in which it makes a step."
            )
        if outer is not None:
            check_outer_optimizer("AllReduce", outer)
        self._check_fragments()

    def _check_fragments(self) -> None:
        every, fragments, delay, mixing = self.every, self.fragments, self.delay, self.mixing
        if not _is_whole(fragments, 1) or fragments > (every or 1):
            raise ValueError(
                f"AllReduce: fragments must be a whole number from 1 to every={every}, the steps "
                f"over which their rounds are spread; got {fragments!r}."
            )
        if not _is_whole(delay, 0) or delay >= (every or 1):
            raise ValueError(
                f"AllReduce: delay must be a whole number ≥ 0 and below every={every}, so that a "
                f"round ends before the next one of its fragment; got {delay!r}."
            )
        if not isinstance(mixing, int | float) or not 0 <= mixing < 1:
            raise ValueError(
                f"AllReduce: mixing must be a number ≥ 0 and below 1, got {mixing!r}. With 1 a "
                "worker would never take what the others have learnt."
            )
        if (
            fragments > 1
            and self.outer_optimizer is not None
            and not callable(self.outer_optimizer)
        ):
            raise ValueError(
                f"AllReduce: with fragments={fragments}, outer_optimizer must be a function that "
                f"makes an optimizer, for each fragment one; got {self.outer_optimizer!r}."
            )


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
