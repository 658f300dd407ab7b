"""CPU kernels in C++, compiled ahead or on first use and called through ctypes."""
