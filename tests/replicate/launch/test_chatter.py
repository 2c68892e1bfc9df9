"""Lines as TensorFlow 2.15 and 2.21 print them, between those of a program."""

import pytest

from replicate.launch.task_logs import ChatterFilter

NODE = (
    "\t [[{{node sync_replicas/TakeGradient}}]] [type.googleapis.com/tensorflow.DerivedStatus='']"
)
WARNED = (
    "W0000 00:00:1795519869.48   20318 local_rendezvous.cc:412] Local rendezvous is aborting with "
    "status: CANCELLED: TakeGrad operation was cancelled"
)
PYTHON_ERROR = "W0000 00:00:1795.17   28196 op_kernel.cc:1845] INVALID_ARGUMENT: ValueError: boom"
GENERATOR = [
    "Traceback (most recent call last):",
    "",
    '  File "train.py", line 5, in gen',
    '    raise ValueError("boom")',
    "",
    "ValueError: boom",
    "",
    "",
]
DEPRECATED = (
    "WARNING:tensorflow:From train.py:10: QueueRunner.__init__ (from tensorflow.python.x) is "
    "deprecated and will be removed in a future version."
)
ARGUMENT = (
    "W1124 11:28:49.123456 140123 deprecation.py:50] From train.py:11: calling from_generator ("
    "from tensorflow.python.x) with output_types is deprecated and will be removed after 2026."
)
RENAMED = (
    "WARNING:tensorflow:From train.py:3: The name tf.losses.x is deprecated. Please use "
    "tf.compat.v1.losses.x instead."
)
INSTRUCTIONS = ["Instructions for updating:", "Use the `tf.data` module."]

LOST = (
    "ERROR:tensorflow:An error occurred when attempting to close the session. This may be due to a "
    "preemption in a connected worker or parameter server. Error:"
)
LOST_SESSION = [
    LOST,
    "=====================",
    "UNAVAILABLE: From /job:ps/replica:0/task:0:",
    "Socket closed",
    "",
    ":UNKNOWN:Error received from peer  {grpc_status:14}",
    "=====================",
    "",
]

CHATTER = {
    "information": [
        "I0000 00:00:1795519856.354936   19876 port.cc:153] oneDNN custom operations are on.",
        "I1124 11:28:49.123456   19876 device_compiler.h:196] Compiled cluster using XLA!",
        "2026-11-24 11:28:49.123456: I tensorflow/core/util/port.cc:113] oneDNN custom operations",
        "2026-11-24 11:28:49.123456: W tensorflow/compiler/tf2tensorrt/utils/utils.cc:38] no TRT",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    ],
    "CPU": [
        "I0000 00:00:1795519856.48   19878 cpu_feature_guard.cc:227] This TensorFlow binary is",
        "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow.",
    ],
    "GPU": [
        "E0000 00:00:1795519856.48   19878 cuda_fft.cc:477] Unable to register cuFFT factory: x"
    ],
    "cancelled step": [WARNED, NODE, WARNED],
    "error in a generator": [PYTHON_ERROR, *GENERATOR, PYTHON_ERROR, *GENERATOR, NODE],
    "deprecation": [DEPRECATED, *INSTRUCTIONS, ARGUMENT, *INSTRUCTIONS],
    "new name": [RENAMED, "", RENAMED],
    "lost session": LOST_SESSION,
    "lost session, one error": [
        f"{LOST} Socket closed",
        "Additional GRPC error information from remote target /job:ps/replica:0/task:0:",
        ":UNKNOWN:Error received from peer  {grpc_status:14}",
        "\t [[{{node loss}}]]",
    ],
}


@pytest.mark.parametrize("lines", CHATTER.values(), ids=CHATTER)
def test_tensorflows_own_lines_are_chatter(lines):
    found = ChatterFilter()
    assert [line for line in lines if not found.is_chatter(line)] == []
    assert not found.is_chatter("my program goes on")


PROGRAM = [
    "Instructions for updating:",
    "To enable the following instructions, read the manual.",
    "\t [[{{node loss}}]]",
    "E0000 00:00:1795519856.354936   19876 bfc_allocator.cc:1] out of memory",
    "F0000 00:00:1795519856.354936   19876 tensor.cc:1] Check failed",
    "2026-11-24 11:28:49.123456: E tensorflow/core/util/port.cc:113] it cannot be used",
    "I1124 11:28:49.123456 140123 train.py:31] epoch 3",
    "W1124 11:28:49.123456 140123 train.py:31] From now on the rate is deprecated.",
    "INFO:tensorflow:loss = 3",
    "WARNING:tensorflow:The server of ps 0 listens on port 2222",
    "Traceback (most recent call last):",
    "",
    "ValueError: boom",
]


@pytest.mark.parametrize("line", PROGRAM)
def test_errors_and_lines_of_the_program_are_no_chatter(line):
    assert not ChatterFilter().is_chatter(line)


@pytest.mark.parametrize(
    ("chatter", "others"),
    [
        ([WARNED], ["Traceback (most recent call last):", '  File "train.py", line 1']),
        ([WARNED, NODE], ["", "  indented"]),
        ([PYTHON_ERROR, *GENERATOR], ["  indented", NODE]),
        ([PYTHON_ERROR, *GENERATOR], ["Traceback (most recent call last):", "  File"]),
        ([DEPRECATED], ["my line", *INSTRUCTIONS]),
        ([DEPRECATED, *INSTRUCTIONS], ["my line", ""]),
        ([RENAMED, ""], [""]),
        (LOST_SESSION[:1], ["my line", *LOST_SESSION[1:]]),
        (LOST_SESSION, ["The session was lost", "ERROR:tensorflow:another error", ""]),
    ],
)
def test_what_does_not_continue_a_message_is_no_chatter(chatter, others):
    found = ChatterFilter()
    assert all(found.is_chatter(line) for line in chatter)
    assert [line for line in others if found.is_chatter(line)] == []
