"""Processes that a test has started, looked up in /proc."""

import time


def is_alive(pid):
    """Whether a process runs; a zombie whose parent has not looked at it does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=10.0):
    """Whether all of the processes have ended, which may take them a moment."""
    end = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    return not left
