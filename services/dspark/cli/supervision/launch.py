"""Starts Python modules as processes that are killed when their parent dies, however that happens.

As a program: ``launch PARENT_PID MODULE ARGUMENT...`` becomes ``python -m MODULE ARGUMENT...``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def launch_command(module: str, arguments: Sequence[str]) -> list[str]:
    """The command line for a child of this process.

    The child dies with the thread that starts it, so start it from one that lasts.
    """
    own_pid = str(os.getpid())
    return [sys.executable, "-m", "dspark.cli.supervision.launch", own_pid, module, *arguments]


def main() -> None:
    parent, module, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the line above.
    if os.getppid() != int(parent):
        sys.exit("the parent process has died")
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


if __name__ == "__main__":
    main()
