"""What a GPU's compiler makes of a kernel."""
