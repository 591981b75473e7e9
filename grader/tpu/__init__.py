"""What is true of the TPU: plain facts and arithmetic, no kernels."""
