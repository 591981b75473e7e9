"""What tests share: kernels to look at, evidence to judge, repositories to break."""
