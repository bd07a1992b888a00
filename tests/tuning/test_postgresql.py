"""Two machines on one PostgreSQL database: a server from the system's packages, two processes, two
folders."""

import glob
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import optuna
import pytest

from nnunet_dro.tuning.storage import closing
from tests.commands import refused
from tests.tuning.conftest import BETA, Fake, make_dataset
from tests.tuning.test_study import hanging, start

pytestmark = pytest.mark.slow
#: Drivers by the name that a URL gives them.
DRIVERS = {"psycopg": "psycopg", "psycopg2": "psycopg2", "pg8000": "pg8000"}


def program(name):
    folders = [
        os.environ.get("PATH", ""),
        *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True),
    ]
    return shutil.which(name, path=os.pathsep.join(folders))


def driver():
    return next(
        (name for name, module in DRIVERS.items() if importlib.util.find_spec(module)), None
    )


def ordinary_user():
    """Whom the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return pytest.skip("root has no other user to run a server as")


@pytest.fixture(scope="module")
def server():
    """The URL of a database on a server of this test's own."""
    if not program("initdb") or not program("pg_ctl"):
        pytest.skip("PostgreSQL is not installed")
    if driver() is None:
        pytest.skip(f"none of {', '.join(DRIVERS)} is installed")
    user = ordinary_user()
    # pytest's own folders can be read by their owner only.
    folder = Path(tempfile.mkdtemp(prefix="nnunet-dro-postgresql-"))
    ids = {}
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
        ids = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def run(*words):
        subprocess.run(
            list(map(str, words)), check=True, cwd=folder, stdout=subprocess.DEVNULL, **ids
        )

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    options = f"-F -p {port} -k {folder} -c listen_addresses=127.0.0.1"
    try:
        run(
            program("initdb"), "-D", data, "-U", "tuning", "--auth=trust", "-E", "UTF8", "--no-sync"
        )
        run(program("pg_ctl"), "-D", data, "-o", options, "-l", folder / "log.txt", "-w", "start")
        try:
            yield f"postgresql+{driver()}://tuning@127.0.0.1:{port}/postgres"
        finally:
            run(program("pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def machine(fake, root):
    """Another machine: its own datasets and results, the same program."""
    root.mkdir()
    make_dataset(root)
    return Fake(root, fake.program)


def trials_of(url, name):
    with closing(optuna.storages.RDBStorage(url)) as storage:
        return optuna.load_study(study_name=name, storage=storage).get_trials()


def states(url, name):
    return [trial.state.name for trial in trials_of(url, name)]


def test_two_machines_share_the_trials_and_the_repetitions(fake, server, tmp_path):
    shared = (*BETA, "--storage", server, "--study", "shared", "--trials", "6", "--repeat", "1")
    other = machine(fake, tmp_path / "other")
    running = [start(fake, *shared, seconds=1.0)]
    while not fake.calls:
        # The other one would begin with the same trainer, the default.
        time.sleep(0.05)
    running.append(start(other, *shared, seconds=1.0))

    codes = [process.wait() for process in running]
    printed = [(here.root / "stderr").read_text() for here in (fake, other)]

    assert codes == [0, 0], printed

    mine = fake.calls
    theirs = other.calls

    assert mine, "this machine trains"
    assert theirs, "the other one trains"
    assert not set(mine) & set(theirs), "no trainer is trained on both machines"
    assert len(mine) + len(theirs) == 6

    trials = trials_of(server, "shared")
    search = [trial for trial in trials if "repeat" not in trial.user_attrs]

    assert {trial.state.name for trial in trials} == {"COMPLETE"}
    assert sorted(trial.user_attrs["trainer"] for trial in search) == sorted([*mine, *theirs])

    again = [trial for trial in trials if "repeat" in trial.user_attrs]
    best = sorted(search, key=lambda trial: -trial.value)[:3]

    assert sorted(trial.user_attrs["repeat_of"] for trial in again) == sorted(
        trial.number for trial in best
    )
    assert "Traceback" not in "".join(printed)


def test_trial_that_was_interrupted_on_one_machine_is_trained_on_the_other(
    fake, tune, server, tmp_path
):
    shared = (*BETA, "--storage", server, "--study", "interrupted", "--trials", "3")
    other = machine(fake, tmp_path / "other")
    process = start(other, *shared, hang=["HWS"])
    hanging(other, process)

    here = tune(*shared)

    assert "1 running elsewhere; no more trials are needed." in here.stderr
    assert states(server, "interrupted") == ["RUNNING", "COMPLETE", "COMPLETE"]

    os.kill(process.pid, signal.SIGINT)

    assert process.wait() == 130
    assert states(server, "interrupted") == ["FAIL", "COMPLETE", "COMPLETE", "WAITING"]

    tune(*shared)
    assert states(server, "interrupted") == ["FAIL", "COMPLETE", "COMPLETE", "COMPLETE"]
    assert other.calls == [fake.calls[-1]] == ["nnUNetTrainerHWS_4epochs"], (
        "begun again: the checkpoint is elsewhere"
    )


def test_wrong_password_or_port_is_one_line(fake, tune, server):
    result = tune(
        *BETA,
        "--storage",
        server.replace("tuning@", "stranger:secret@"),
        "--study",
        "shared",
        code=2,
    )
    refused(result, "`--storage` must be a database of Optuna")

    assert "secret" not in result.stderr
