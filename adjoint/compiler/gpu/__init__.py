"""Compiled programs on a GPU: fused CUDA kernels, library calls, the whole replayed as a CUDA graph."""
