"""LLVM text for the inner loop of a kernel.

Nothing is imported here: a process whose kernels are all in the cache needs `target` and `symbols` alone.
"""
