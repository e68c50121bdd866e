"""Learn PyTorch by building it."""
