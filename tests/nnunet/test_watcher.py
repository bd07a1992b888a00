"""What a command that is killed has started ends with it, in real processes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnunet_dro.nnunet import watcher
from tests.nnunet.test_command import STARTER, WAITS, pids_in, wait_until
from tests.processes import gone, is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: Inherits the watcher's pipe and lives on, as a worker that was forked during the training would.
FORKS = """
import threading, time
from nnunet_dro.nnunet import watcher
def fork():
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
started = watcher.Watcher.__init__
def start(self, group):
    started(self, group)
    fork()
watcher.Watcher.__init__ = start
"""


@pytest.mark.parametrize("before", ["", FORKS])
def test_command_ends_with_a_starter_that_is_killed(tmp_path, before):
    log = tmp_path / "log.txt"
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER.format(code=WAITS, before=before), log]
    )

    assert wait_until(lambda: log.with_suffix(".seen").exists() and pids_in(log), seconds=60)

    pids = pids_in(log)
    assert all(map(is_alive, pids))

    time.sleep(0.3)
    starter.send_signal(signal.SIGKILL)
    starter.wait()

    assert gone(pids)


def test_group_that_does_not_listen_is_killed(tmp_path):
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAITS}"
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", deaf], stdout=log, start_new_session=True)

    assert wait_until(lambda: (tmp_path / "log.txt").read_text().strip())

    script = (
        Path(watcher.__file__).read_text().replace("_GRACE_SECONDS = 5.0", "_GRACE_SECONDS = 0.2")
    )
    assert "_GRACE_SECONDS = 0.2" in script

    # Its parent is another process than the one that it is told: the starter has died before it
    # looked.
    subprocess.run([sys.executable, "-c", script, str(process.pid), "1"], timeout=30, check=True)
    assert process.wait(timeout=10) == -signal.SIGKILL


def test_watch_ends_with_the_command(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    watch = watcher.Watcher(process.pid)

    inner = watch._process

    assert is_alive(inner.pid)

    watch.dismiss()
    watch.dismiss()

    assert inner.returncode == 0
    assert process.poll() is None, "what is watched is left alone"

    process.kill()
    process.wait()

    assert Path(watcher.__file__).read_text().count("nnunet_dro") == 0, (
        "the script imports nothing of the package"
    )
