"""Arrays of a logits row's size reuse their memory."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource
import numpy as np
from dspark.verifier.allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        np.ones(2_000_000, dtype=np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="there is no glibc")
def test_large_arrays_cost_no_page_faults_again() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # 8 MB have 2000 pages; 200 fresh arrays would fault about 400,000 times.
    assert int(done.stdout) < 2000
