"""CPU kernels in C++, built on first use and called through ctypes."""
