"""Explanations of device errors."""

import pytest

from training.device_errors import explain_device_error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes", "data.batch_size"),
        ("Unable to initialize backend 'cuda': RESOURCE_EXHAUSTED: no memory", "nvidia-smi"),
        ("INTERNAL: Failed to initialize BLASLT support", "nvidia-smi"),
        ("INTERNAL: failed to create cublas handle: cublas error", "XLA_CLIENT_MEM_FRACTION"),
        ("INTERNAL: CUBLAS_STATUS_NOT_INITIALIZED", "XLA_CLIENT_MEM_FRACTION"),
        ("FAILED_PRECONDITION: DNN library initialization failed.", "XLA_CLIENT_MEM_FRACTION"),
        ("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "XLA_CLIENT_MEM_FRACTION"),
        ("RESOURCE_EXHAUSTED: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "data.batch_size"),
        ("UNKNOWN: Gloo allreduce failed", "same command"),
        ("INTERNAL: an error inside XLA", ""),
    ],
)
def test_device_errors_include_advice(error, advice):
    message = explain_device_error(RuntimeError(error))
    assert advice in message and bool(message) == bool(advice)
