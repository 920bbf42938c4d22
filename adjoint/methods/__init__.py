"""Methods of Tensor that are not ops: its place in the graph, its memory, what Python and NumPy ask of it."""
