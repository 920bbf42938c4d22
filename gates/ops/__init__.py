"""Random calls of operators: values, derivatives of both modes and orders, and batches are right.

torch judges values, dtypes, shapes and derivatives. Where derivatives differ, finite differences of torch's values in
double precision decide; where values of low precision differ, its result in double precision does. Batches are compared
with a loop. Without torch, finite differences of adjoint's values judge gradients in double precision, nothing else.

    python -m gates.ops --minutes 5 --seed 0
    python -m gates.ops --seed 0 --case 1234      # one case again, all of it printed
"""
