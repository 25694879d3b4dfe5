"""Export of fitted classifiers to ONNX; needs the extra ``export``."""

from bayespoint.io.onnx.conversion import register, to_onnx

__all__ = ["register", "to_onnx"]
