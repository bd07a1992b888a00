import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from nnunet_dro.nnunet import command
from nnunet_dro.nnunet.command import Command, CommandError, SafeStop, run_command, run_commands
from tests.processes import gone, is_alive

reads_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def _impatience(monkeypatch):
    monkeypatch.setattr(command, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(command, "GRACE_SECONDS", 0.3)


def python(code):
    return (os.path.basename(sys.executable), "-c", code)


def run(tmp_path, code, while_running=lambda: None, *, safe_stop=None, **environment):
    log = tmp_path / "logs" / "a.txt"
    run_command(
        python(code),
        environment=environment,
        log=log,
        while_running=while_running,
        safe_stop=safe_stop,
    )
    return log.read_text()


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def pids_in(log):
    """What `WAITS` printed; nothing while it has not."""
    lines = re.findall(r"^(\d+) (\d+)$", log.read_text(), re.MULTILINE)
    return [pid for line in lines for pid in line]


#: A command with a worker of its own, that says both numbers, in one piece, and waits.
WAITS = """
import os, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
os.write(1, f"{os.getpid()} {worker.pid}\\n".encode())
time.sleep(60)
"""


#: A program that runs a command, with a log that is its argument; beside that is a file as soon as
#: the command is watched.
STARTER = """
import os, sys
from pathlib import Path
from nnunet_dro.nnunet.command import run_command
{before}
run_command(("python", "-c", {code!r}), log=Path(sys.argv[1]), environment={{}}, while_running=Path(sys.argv[1]).with_suffix(".seen").touch)
"""


def test_output_and_command_are_in_the_log(tmp_path):
    log = run(tmp_path, "import os; print(os.environ['SOME'])", SOME="thing")
    assert log.startswith("$ python")
    assert log.endswith("thing\n")
    assert run(tmp_path, "print('second')").count("$ ") == 2, "logs are appended"


def test_failure_shows_the_last_lines_and_the_log_and_can_be_pickled(tmp_path):
    with pytest.raises(CommandError) as error:
        run(tmp_path, "import sys; [print('line', n) for n in range(100)]; sys.exit(3)")

    message = str(error.value)
    log = tmp_path / "logs" / "a.txt"
    last = [f"line {n}" for n in range(85, 100)]

    assert (error.value.exit_code, error.value.lines, error.value.log) == (3, last, log)

    first, *printed, where = message.splitlines()
    assert first.endswith("failed with exit code 3. It printed:")
    assert [line.strip() for line in printed] == last
    assert where == f"Everything is in {log}"

    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == message
    assert vars(again) == vars(error.value)


@reads_proc
def test_failure_leaves_no_worker_behind(tmp_path):
    fails = WAITS.replace("time.sleep(60)\n", "sys.exit(1)\n")
    with pytest.raises(CommandError) as error:
        run(tmp_path, fails)
    assert gone(error.value.lines[-1].split())


def commands(tmp_path, *codes):
    """A command for each code, with the logs 0.txt, 1.txt and so on."""
    return [
        Command(python(code), tmp_path / f"{number}.txt", {}) for number, code in enumerate(codes)
    ]


#: A command that ends once the file other.txt has been written, and writes one.txt before.
MEETS = """
import pathlib, time
pathlib.Path({folder!r}, {one!r}).touch()
while not pathlib.Path({folder!r}, {other!r}).exists():
    time.sleep(0.02)
print({one!r})
"""


def test_commands_run_at_the_same_time_and_have_logs_of_their_own(tmp_path):
    codes = [
        MEETS.format(folder=str(tmp_path), one=one, other=other)
        for one, other in (("a", "b"), ("b", "a"))
    ]
    run_commands(commands(tmp_path, *codes), while_running=lambda: None)

    assert [(tmp_path / f"{n}.txt").read_text().splitlines()[-1] for n in range(2)] == ["a", "b"]


@reads_proc
def test_failure_of_a_command_ends_the_others_and_names_its_log(tmp_path):
    waits = tmp_path / "0.txt"
    fails = f"""
import pathlib, sys, time
while len(pathlib.Path({str(waits)!r}).read_text().splitlines()[-1].split()) != 2:
    time.sleep(0.02)
sys.exit("no more memory")
"""

    with pytest.raises(CommandError, match="no more memory") as error:
        run_commands(commands(tmp_path, WAITS, fails, ""), while_running=lambda: None)
    assert error.value.log == tmp_path / "1.txt"
    assert str(tmp_path / "1.txt") in str(error.value)
    assert gone(pids_in(waits))


def test_no_command_is_started_if_one_is_absent(tmp_path):
    absent = Command(["nnUNetv2_nothing"], tmp_path / "absent.txt", {})
    with pytest.raises(FileNotFoundError, match="`nnUNetv2_nothing` must be installed"):
        run_commands([*commands(tmp_path, ""), absent], while_running=lambda: None)
    assert list(tmp_path.iterdir()) == []


DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + WAITS


@reads_proc
@pytest.mark.parametrize(
    ("code", "stop"), [(WAITS, KeyboardInterrupt), (WAITS, SystemExit), (DEAF, KeyboardInterrupt)]
)
def test_whatever_ends_the_function_ends_all_commands_and_their_workers(tmp_path, code, stop):
    logs = [tmp_path / "0.txt", tmp_path / "1.txt"]

    def interrupt():
        if all(map(pids_in, logs)):
            raise stop

    with pytest.raises(stop):
        run_commands(commands(tmp_path, code, WAITS), while_running=interrupt)
    assert gone([pid for log in logs for pid in pids_in(log)])


@reads_proc
def test_request_to_terminate_ends_the_command(tmp_path):
    log = tmp_path / "a.txt"
    caller = subprocess.Popen([sys.executable, "-c", STARTER.format(code=WAITS, before=""), log])

    assert wait_until(lambda: log.exists() and pids_in(log), 20)

    caller.send_signal(signal.SIGTERM)
    assert caller.wait(timeout=10) == 128 + signal.SIGTERM
    assert gone(pids_in(log))


@reads_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_safe_stop_waits_for_the_next_look_at_the_command(tmp_path, number):
    log = tmp_path / "logs" / "a.txt"
    seen = []

    def ask():
        if pids_in(log):
            os.kill(os.getpid(), number)
            seen.append(all(map(is_alive, pids_in(log))))

    with SafeStop() as safe_stop, pytest.raises(KeyboardInterrupt):
        run(tmp_path, WAITS, ask, safe_stop=safe_stop)
    assert seen == [True], "what was going on has come to its end"
    assert gone(pids_in(log))


#: A command that is ended before its starter is asked to end.
ENDED_FIRST = """
import os, subprocess, sys, time
code = f"import os, time; time.sleep(0.01); os.kill({os.getppid()}, 15)"
subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True)
os.kill(os.getpid(), 15)
"""


@reads_proc
def test_what_ends_all_processes_of_a_job_is_a_stop_and_no_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "POLL_SECONDS", 2.0)
    with SafeStop() as safe_stop, pytest.raises(KeyboardInterrupt):
        run(tmp_path, ENDED_FIRST, safe_stop=safe_stop)


def test_request_to_stop_waits_for_the_check_but_not_the_second():
    with SafeStop() as safe_stop:
        safe_stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            safe_stop.check()
    with SafeStop():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    numbers = (signal.SIGINT, signal.SIGTERM)

    before = [signal.getsignal(number) for number in numbers]

    with SafeStop():
        assert [signal.getsignal(number) for number in numbers] != before

    assert [signal.getsignal(number) for number in numbers] == before

    passed = []

    def use():
        with SafeStop() as safe_stop:
            safe_stop.check()
            passed.append(True)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()

    assert passed == [True]
