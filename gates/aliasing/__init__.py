"""Random programs of views, in-place writes and changes of geometry: values, gradients and refusals equal torch's.

A program is a list of steps, each a name and parameters, so that one that differs can be printed and run again. torch
judges each; where the two disagree about a gradient of a program that finite differences can judge, they decide.

    python -m gates.aliasing --minutes 5 --seed 0
"""
