"""What programs allow the libraries of a CUDA device; imports none of them."""

from __future__ import annotations


class CuDNN:
    """Whether cuDNN may be used, and TensorFloat-32 in it."""

    enabled = True
    tf32 = True


cudnn = CuDNN()
