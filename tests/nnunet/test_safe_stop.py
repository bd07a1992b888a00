import os
import signal
import threading

import pytest

from nnunet_dro.nnunet.command import SafeStop


def test_request_to_stop_waits_for_the_check():
    with SafeStop() as safe_stop:
        safe_stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            safe_stop.check()


def test_second_request_does_not_wait():
    with SafeStop():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_as_before_afterwards():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]

    with SafeStop():
        assert [signal.getsignal(number) for number in numbers] != before

    assert [signal.getsignal(number) for number in numbers] == before


def test_other_threads_which_receive_no_signals_may_use_it():
    passed = []

    def use():
        with SafeStop() as safe_stop:
            safe_stop.check()
            passed.append(True)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert passed == [True]
