"""Kernels on a GPU, through CuPy: arrays with short launches, and what CuPy computes too slowly or not at all.

Only imported when a tensor is put on a GPU.
"""
