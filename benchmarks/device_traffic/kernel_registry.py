"""GPU kernels of the running TensorFlow, read from its registry and written to `gpu_kernels.json`.

The registry is read by `TF_GetAllRegisteredKernels` of TensorFlow's C API. A build with CUDA
registers its GPU kernels on import, also on a machine without GPUs, so this needs no GPU:

    python -m pip install tensorflow && python -m benchmarks.device_traffic.kernel_registry
"""

import ctypes
import json
import pathlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TABLE = pathlib.Path(__file__).with_name("gpu_kernels.json")
LIBRARY = "libtensorflow_cc.so.2"
Kernel: TypeAlias = tuple[dict[str, Sequence[str]], list[str]]
"""Accepted types by attribute, and arguments in the memory of the CPU."""
_FIELDS = {
    "Constraint": [("name", 1, False), ("allowed", 2, False)],
    "Kernel": [
        ("op", 1, False),
        ("device", 2, False),
        ("constraints", 3, True),
        ("host_arguments", 4, True),
        ("label", 5, False),
    ],
    "Kernels": [("kernels", 1, True)],
}
"""Fields of TensorFlow's `kernel_def.proto` that are read: name, number, repeated."""
_MESSAGES = {"constraints": "Constraint", "kernels": "Kernel"}


class _Buffer(ctypes.Structure):
    """`TF_Buffer` of the C API."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    )


def gpu_kernels() -> dict[str, list[dict[str, Any]]]:
    """Returns the GPU kernels of all op types.

    Kernels for the device type "DEFAULT" come last: they serve GPUs if no other kernel accepts the
    types. Kernels that only a label selects are left out.

    Returns:
      For each op type, its kernels. The first that accepts the types counts. "types" maps
      attributes to the names of accepted data types, "host" lists the arguments that are in the
      memory of the CPU.
    """
    by_device: dict[str, dict[str, list[Kernel]]] = {"GPU": {}, "DEFAULT": {}}
    for kernel in _registered():
        if kernel.device in by_device and not kernel.label:
            types = {each.name: _type_names(each.allowed) for each in kernel.constraints}
            entry = (types, sorted(set(kernel.host_arguments)))
            by_device[kernel.device].setdefault(kernel.op, []).append(entry)
    return {
        op: [
            {"types": types, "host": host}
            for by_op in by_device.values()
            for types, host in _merged(by_op.get(op, []))
        ]
        for op in sorted({*by_device["GPU"], *by_device["DEFAULT"]})
    }


def _merged(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Joins kernels that differ only in the accepted types of one attribute."""
    names = sorted({name for types, _ in kernels for name in types})
    for name in names:
        joined: dict[str, Kernel] = {}
        for types, host in kernels:
            others = {key: sorted(types[key]) for key in sorted(types) if key != name}
            key = json.dumps([others, host, name in types])
            kept, _ = joined.get(key, (dict.fromkeys(types, ()), host))
            merged = {each: sorted({*kept[each], *types[each]}) for each in types}
            joined[key] = (merged, host)
        kernels = list(joined.values())
    return list(kernels)


def _registered() -> Any:
    """Returns the kernels of all devices as messages."""
    library = ctypes.CDLL(str(pathlib.Path(tf.sysconfig.get_lib()) / LIBRARY))
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_GetAllRegisteredKernels.restype = ctypes.POINTER(_Buffer)
    library.TF_GetAllRegisteredKernels.argtypes = [ctypes.c_void_p]
    library.TF_DeleteBuffer.argtypes = [ctypes.POINTER(_Buffer)]
    library.TF_DeleteStatus.argtypes = [ctypes.c_void_p]
    status = library.TF_NewStatus()
    buffer = library.TF_GetAllRegisteredKernels(status)
    try:
        text = ctypes.string_at(buffer.contents.data, buffer.contents.length)
    finally:
        library.TF_DeleteBuffer(buffer)
        library.TF_DeleteStatus(status)
    return _kernels_message().FromString(text).kernels


def _kernels_message() -> Any:
    """Returns the message class of a list of kernels."""
    file = descriptor_pb2.FileDescriptorProto(name="kernels.proto", package="device_traffic")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, repeated in fields:
            field = described.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            field.type = kinds.TYPE_BYTES if name == "allowed" else kinds.TYPE_STRING
            if name in _MESSAGES:
                field.type = kinds.TYPE_MESSAGE
                field.type_name = f".device_traffic.{_MESSAGES[name]}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("device_traffic.Kernels"))


def _type_names(allowed: bytes) -> list[str]:
    values = tf.compat.v1.AttrValue.FromString(allowed).list.type
    return [str(tf.as_dtype(value).name) for value in values]


def main() -> None:
    """Writes the table.

    Raises:
      SystemExit: TensorFlow is built without CUDA.
    """
    if not tf.test.is_built_with_cuda():
        raise SystemExit(
            f"TensorFlow {tf.__version__} of this environment is built without CUDA and lacks most "
            f"GPU kernels. Install the distribution `tensorflow` instead of `tensorflow-cpu`."
        )
    kernels = gpu_kernels()
    lines = [f" {json.dumps(op)}: {json.dumps(entries)}" for op, entries in kernels.items()]
    text = ",\n".join(lines)
    TABLE.write_text(
        f'{{"tensorflow": "{tf.__version__}",\n"kernels": {{\n{text}\n}}}}\n', encoding="utf-8"
    )
    print(f"{TABLE}: {len(kernels)} op types with GPU kernels")


if __name__ == "__main__":
    main()
