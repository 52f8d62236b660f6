"""Explanations of the errors that JAX raises about devices; importing this module is fast."""

import sys

from errors import first_line

# Parts of the messages with which XLA reports that a GPU library could not be initialized. The
# usual cause is that other processes have reserved the memory of the GPU.
_NO_DEVICE = (
    "Unable to initialize backend", "initialize BLAS", "DNN library initialization failed",
    "CUBLAS_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_INTERNAL_ERROR", "CUSOLVER_STATUS_NOT_INITIALIZED",
    "CUDA_ERROR_OUT_OF_MEMORY", "cuBLAS handle", "cublas handle", "cublasLt", "cuSolver",
    "No BLAS support for stream", "Failed to load in-memory CUBIN",
)  # fmt: skip


def explain_device_error(error: RuntimeError) -> str:
    """Return a message with advice about an error that JAX raised; "" if the error is unknown."""
    text = str(error)
    if "BF16" in text and "Unsupported element type" in text:
        return "XLA does not support bfloat16 on this CPU: set --config.model.dtype=float32"
    if "jax" in sys.modules:  # only JAX loses connections, and importing training.hosts is slow
        from training.hosts import lost_process

        if message := lost_process(error):
            return message
    if "RESOURCE_EXHAUSTED" in text and "initialize backend" not in text:
        return (
            f"the device is out of memory ({first_line(error)}): reduce data.batch_size for "
            "training, or decode.beam or decode.batch for decoding"
        )
    if any(words in text for words in _NO_DEVICE):
        return (
            f"JAX cannot use the device ({first_line(error)}): other programs probably use all of "
            "its memory (see nvidia-smi for a GPU): end them, or give each program a share, such "
            "as XLA_CLIENT_MEM_FRACTION=.4 for two; JAX_PLATFORMS=cpu uses the CPU instead"
        )
    return ""
