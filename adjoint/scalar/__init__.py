"""Formulas as data: an elementwise op is stated once, and every machine form of it is printed from that statement.

A formula is an ordinary Python function of numbers, written with operators, NumPy's ufuncs and other primitives. Called
with `Symbol`s instead of arrays it returns an expression (symbol.py); printers turn that into NumPy passes (arrays.py),
the text of a compiled CPU loop (loops.py), CUDA C (cuda.py) or ONNX nodes (onnx.py). The names that expressions are
made of, and what each is called in every target language, are in functions.py.
"""
