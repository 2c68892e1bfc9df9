"""TPUClusterResolver: the name of a TPU, which programs keep before they know if there is one."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf

v1 = tf.compat.v1

LOCAL = (None, "", "local")
"""Addresses of this process."""


class TPUClusterResolver(tf.distribute.cluster_resolver.ClusterResolver):
    """The name of a TPU, or of none.

    It can be made and given to `RunConfig` anywhere. Without a name, or with "local", it stands for
    this process. With the name of a TPU, it fails when it is asked for something of the TPU.
    """

    def __init__(
        self,
        tpu: str | Sequence[str] | None = None,
        zone: str | None = None,
        project: str | None = None,
        *args: Any,
        **kwargs: Any,
    ):
        """Keeps the name; connects to nothing.

        `tpu` is the name or address of the TPU, or a list of one; None, "" or "local" for none.
        Nothing else is used.
        """
        del zone, project, args, kwargs
        first = tpu[0] if isinstance(tpu, list | tuple) and tpu else tpu or None
        self._tpu = first.decode() if isinstance(first, bytes) else first

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """Returns the target of a session: "", this process. The arguments are not used.

        Raises:
          ValueError: A TPU was named.
        """
        del task_type, task_id, rpc_layer
        self._check_local("its address")
        return ""

    def get_master(self) -> str:
        """Returns what `master` returns.

        Raises:
          ValueError: A TPU was named.
        """
        return self.master()

    def cluster_spec(self) -> v1.train.ClusterSpec:
        """Returns the cluster of the TPU: an empty one, without a TPU.

        Raises:
          ValueError: A TPU was named.
        """
        self._check_local("its cluster")
        return v1.train.ClusterSpec({})

    def get_job_name(self) -> None:
        """Returns the name of the TPU's job: None, without a TPU.

        Raises:
          ValueError: A TPU was named.
        """
        self._check_local("its job")

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Mapping[str, int]:
        """Raises the error for a program that needs a TPU.

        Args:
          task_type: Not used.
          task_id: Not used.
          config_proto: Not used.

        Raises:
          ValueError: Always.
        """
        del task_type, task_id, config_proto
        self._refuse("its cores")

    def get_tpu_system_metadata(self) -> NoReturn:
        """Raises the error for a program that needs a TPU.

        Raises:
          ValueError: Always.
        """
        self._refuse("its topology")

    def _check_local(self, asked: str) -> None:
        if self._tpu not in LOCAL:
            self._refuse(asked)

    def _refuse(self, asked: str) -> NoReturn:
        raise ValueError(
            f"TPUClusterResolver({self._tpu!r}) was asked for {asked}, but TPUs are not supported: "
            "make TPUEstimator with use_tpu=False, and pass no name of a TPU."
        )
