"""Tables, their encoder, model files, ONNX, and the classifier for river."""
