"""Processes that a test has started: begun and ended, or looked up in /proc."""

import time
from contextlib import contextmanager


@contextmanager
def running(context, target, *arguments_of_each):
    """Processes of a context, one for each tuple of arguments, which end by themselves."""
    workers = [context.Process(target=target, args=arguments) for arguments in arguments_of_each]
    for worker in workers:
        worker.start()
    yield
    for worker in workers:
        worker.join(timeout=600)


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
