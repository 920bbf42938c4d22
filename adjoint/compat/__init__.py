"""Compatibility with programs written for torch: the stand-in, and modules that exist for their names.

Programs import these modules by torch's paths (``adjoint.jit``, ``torch.testing._internal``): ``_paths.py`` lists them.
``import adjoint`` loads none of them.
"""
