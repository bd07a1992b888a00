"""End a command whose starter was killed: a process of its own waits for that.

A process that is killed (SIGKILL, out of memory) cannot end what it has started, and nnU-Net's
training would go on for days. The watcher holds one end of a pipe that closes with the starter,
however that ends. This file is run as a script, with nothing but the standard library.
"""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Seconds between two looks at who the parent is, and seconds that a command has to end before it
#: is killed.
_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 5.0

_DISMISSED = b"."


class Watcher:
    """Watches over a process group for as long as this process lives.

    On Windows, which has no process groups, it does nothing.
    """

    def __init__(self, group: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if hasattr(os, "killpg"):
            arguments = [
                sys.executable,
                "-I",
                "-S",
                str(Path(__file__)),
                str(group),
                str(os.getpid()),
            ]
            # A session of its own: Ctrl-C in the terminal is none of its business.
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """End the watch; the group is left alone."""
        if self._process is None:
            return
        try:
            self._process.communicate(_DISMISSED)
        except BrokenPipeError:
            self._process.wait()
        self._process = None


def _watch(group: int, starter: int) -> None:
    """Wait until the starter dismisses this process or dies, and then end the group if it died."""
    # A process that was forked from the starter may keep the pipe open. The change of parents then
    # tells that the starter has died.
    while os.getppid() == starter:
        if select.select([0], [], [], _LOOK_SECONDS)[0]:
            if os.read(0, 1) == _DISMISSED:
                return
            break

    end = time.monotonic() + _GRACE_SECONDS
    try:
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < end:
            time.sleep(0.05)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Nobody is left, or (on macOS) only processes that have ended.
        return


if __name__ == "__main__":
    _watch(int(sys.argv[1]), int(sys.argv[2]))
