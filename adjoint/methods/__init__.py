"""Methods of Tensor that are not ops: its place in the graph, its memory layout, the protocols of Python and NumPy."""
