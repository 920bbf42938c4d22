"""Recording: tensors, modes, primitives and the backward engine. Knows no op by name."""
