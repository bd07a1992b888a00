"""The storage of a study: open it, and check that it is the study that the user means."""

import errno
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from filelock import FileLock, Timeout
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.study import StudyDirection
from optuna.trial import TrialState

from nnunet_dro.naming import name_some

_ABOUT = "nnunet-dro tune"  # User attribute in which a study records what it is about.

#: What a study is about from its second start on: the first training divides the cases, where
#: nothing has divided them before.
VALIDATED = "validation cases"
STRATA = "strata"

#: Seconds between two signs of life of a trial on a shared storage, and seconds without one after
#: which it is dead.
_HEARTBEAT_SECONDS = 60
_DEAD_SECONDS = 240

_LOCK_SECONDS = 60  # Seconds to wait for the transaction of another thread or process on the file.

#: How often a shared storage is tried to be opened, and seconds between two attempts.
_OPENINGS = 5
_OPENING_SECONDS = 1.0

_MAX_RETRIES = 3  # How often a trial is restarted whose machine has died.

#: The reason of a failed trial that a killed process has left running.
KILLED = "killed"

#: Errors of file systems without locks, where other processes cannot be noticed.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

#: Errors of a storage that no longer answers.
STORAGE_ERRORS = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError)

#: Errors of a storage that does not exist, has no driver, or belongs to another version of Optuna.
_OPENING_ERRORS = (*STORAGE_ERRORS, ImportError, RuntimeError)


def open_storage(url: str | None, folder: Path) -> RDBStorage:
    """Open the database that a study is stored in.

    Args:
        url: A database that several machines share; trials whose machine has died are restarted.
            None stands for ``study.db`` in the folder.
        folder: Folder of the study.

    Raises:
        ValueError: If it cannot be opened, or is no database of Optuna.
    """
    address = url
    cure = "Check the URL and its driver."
    if address is None:
        file = str(folder / "study.db")
        address = sqlalchemy.URL.create("sqlite", database=file).render_as_string()
        cure = (
            "See that its disk has room and that you may write to it. If it is no study, name "
            "another with --study."
        )

    try:
        if url is not None:
            return _open_shared(url)
        # No pool leaves no connection open where the file turns out to be none of a study.
        options = {
            "connect_args": {"timeout": _LOCK_SECONDS},
            "poolclass": sqlalchemy.pool.NullPool,
        }
        return RDBStorage(address, engine_kwargs=options)
    except _OPENING_ERRORS as error:
        raise ValueError(
            f"`storage` must be a database of Optuna, got {_without_password(address)!r}: "
            f"{message_of(error)}. {cure}"
        ) from error


def _open_shared(url: str) -> RDBStorage:
    """Open a shared storage.

    Another machine may make its tables at the same moment, which fails in one of the two.
    """
    restart = RetryHeartbeatStaleTrialCallback(max_retry=_MAX_RETRIES)
    n_left = _OPENINGS
    while True:
        try:
            return RDBStorage(
                url,
                heartbeat_interval=_HEARTBEAT_SECONDS,
                grace_period=_DEAD_SECONDS,
                heartbeat_stale_trial_callback=restart,
            )
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            n_left -= 1
            if not n_left:
                raise
            time.sleep(_OPENING_SECONDS)


def _without_password(url: str) -> str:
    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        return url


@contextmanager
def closing(storage: RDBStorage) -> Iterator[RDBStorage]:
    """A storage whose connections are closed in the end."""
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def message_of(error: BaseException) -> str:
    """The message of a database's error, in one line."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    message = str(cause).strip() or type(cause).__name__
    return message.splitlines()[0].rstrip(".")


def open_study(
    storage: RDBStorage, name: str, about: Mapping[str, Any], *, maximise: bool
) -> optuna.Study:
    """Open a study, or create it.

    Raises:
        ValueError: If Optuna cannot open it, or if it is about something else.
    """
    direction = StudyDirection.MAXIMIZE if maximise else StudyDirection.MINIMIZE
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction=direction,
            load_if_exists=True,
        )
    except STORAGE_ERRORS as error:
        raise ValueError(
            f"`study` must be one that Optuna can open, got {name!r}: {message_of(error)}."
        ) from error

    cure = "Name another study with --study."
    if _ABOUT not in study.user_attrs:
        if study.get_trials(deepcopy=False):
            raise ValueError(
                f"`study` must have been made by `nnunet-dro tune`, got {name!r}. {cure}"
            )
        study.set_user_attr(_ABOUT, dict(about))

    before = study.user_attrs[_ABOUT]
    known_later = {key: about[key] for key in (VALIDATED, STRATA) if key in about}
    if not known_later.keys() <= before.keys():
        before = {**known_later, **before}
        study.set_user_attr(_ABOUT, before)
    for key, value in about.items():
        if before.get(key) != value:
            raise ValueError(
                f"`study` must be about the same {key}, got {_text(value)!r} for {name!r}, "
                f"which was made with {_text(before.get(key))!r}. {cure}"
            )
    return study


def _text(value: Any) -> str:
    if value is None:
        return "that of another version"
    if isinstance(value, list):
        return name_some(value, at_most=10, between=" ")
    return str(value)


def fail_what_was_left_running(study: optuna.Study) -> list[int]:
    """Fail trials that a killed process left running, and queue them again.

    The study must be ours alone.
    """
    left = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in left:
        # The attributes of a trial that has ended cannot be set.
        study._storage.set_trial_user_attr(trial._trial_id, "reason", KILLED)
        study.tell(trial.number, state=TrialState.FAIL)
        RetryHeartbeatStaleTrialCallback()(study, trial)
    return [trial.number for trial in left]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Refuse to work in the folder of a study where another process of this machine does."""
    lock = FileLock(folder / "study.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise ValueError(
            f"`study` must be tuned by one process at a time, got {str(folder)!r}. Wait for it, or "
            "share a database between them with --storage."
        ) from error
    except NotImplementedError:
        # This is how older versions of filelock report a file system without locks.
        pass
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise

    try:
        yield
    finally:
        lock.release()
