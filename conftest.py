"""What pytest must not collect for doctests."""

collect_ignore_glob = [
    "tests/helpers/*",
    "tests/conftest.py",
    "tests/*/conftest.py",
    # Needs scikit-activeml to be imported, and has no doctests.
    "src/bayespoint/active/scikit_activeml.py",
    # Need PyTorch or Triton, and have none either.
    "src/bayespoint/gpu/*",
    # Needs skl2onnx; tests/io runs its doctests.
    "src/bayespoint/io/onnx/*",
]
