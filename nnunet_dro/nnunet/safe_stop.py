"""What Ctrl-C and requests to terminate do while nnU-Net's commands run."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn

#: Requests to terminate: of a cluster at its time limit, of a terminal that is closed. Windows lacks the second.
_TERMINATION = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class SafeStop:
    """A context in which Ctrl-C and requests to terminate wait until the program can stop without damage.

    An interrupt in the middle of a transaction would leave a database locked. A second request is not made to wait.
    Outside the main thread, which alone receives signals, nothing changes.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "SafeStop":
        if threading.current_thread() is threading.main_thread():
            numbers = (signal.SIGINT, *_TERMINATION)
            self._before = {number: signal.signal(number, self._ask) for number in numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    def check(self) -> None:
        """Stop here if somebody has asked to.

        Raises:
            KeyboardInterrupt: If somebody has.
        """
        if self._asked.is_set():
            raise KeyboardInterrupt


@contextmanager
def termination_as_exit() -> Iterator[None]:
    """Let a request to terminate unwind the stack, as Ctrl-C does, instead of ending this process at once."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, leave) for number in _TERMINATION}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
