"""Inner loops on a GPU, each Triton kernel beside its plain PyTorch reference."""
