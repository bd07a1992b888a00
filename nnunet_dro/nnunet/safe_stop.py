"""How Ctrl-C and requests to terminate are handled while nnU-Net's commands run."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn

#: Signals that request termination: of a cluster at its time limit, and of a terminal that is closed (not on Windows).
_TERMINATION = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class SafeStop:
    """A context in which Ctrl-C and requests to terminate wait until the program can stop without damage.

    An interrupt in the middle of a transaction would leave a database locked. A second request is obeyed at once.
    In any thread but the main one, which alone receives signals, the context does nothing.
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
        """Stop here if a stop has been requested."""
        if self._asked.is_set():
            raise KeyboardInterrupt


@contextmanager
def termination_as_exit() -> Iterator[None]:
    """Make a request to terminate unwind the stack, as Ctrl-C does, instead of ending this process at once."""

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
