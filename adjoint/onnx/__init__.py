"""ONNX both ways: `export` writes a module's forward pass as a model, `load` reads a model as a module."""

from .exporting import OnnxExporterError, ONNXProgram, TrainingMode, export, is_in_onnx_export
from .module import OnnxModule, load
from .reading import ModelError

__all__ = [
    "ModelError", "ONNXProgram", "OnnxExporterError", "OnnxModule", "TrainingMode", "export",
    "is_in_onnx_export", "load",
]  # fmt: skip
