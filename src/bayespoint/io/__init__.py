"""Tables, their encoder, model files and ONNX."""
