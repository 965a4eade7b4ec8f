"""LLVM text for the inner loop of a kernel."""
