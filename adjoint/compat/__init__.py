"""What exists only so that programs written for torch find a name: the stand-in, and modules with little in them.

Programs import these modules by torch's paths (``adjoint.jit``, ``torch.testing._internal``): ``_paths.py`` lists them.
``import adjoint`` loads none of them.
"""
