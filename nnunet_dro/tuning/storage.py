"""Where a study is kept, and that it is the study that is asked for."""

import errno
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from filelock import FileLock, Timeout
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

#: The user attribute of a study that says what it is about.
_ABOUT = "nnunet-dro tune"

#: Seconds between two signs of life of a trial on a shared storage, and those after which it counts as dead.
_HEARTBEAT_SECONDS, _DEAD_SECONDS = 60, 240

#: How long to wait for another thread's or process's transaction on the file.
_LOCK_SECONDS = 60

#: How often a trial is begun again whose machine has died.
_MAX_RETRIES = 3

#: What a file system without locks answers: whether another process is there, nobody can tell.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

#: What a storage raises that does not answer any more.
STORAGE_ERRORS = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError)

#: What one raises that is not there, has no driver, or is of another version of Optuna.
_OPENING_ERRORS = (*STORAGE_ERRORS, ImportError, RuntimeError)


def open_storage(url: str | None, folder: Path) -> RDBStorage:
    """Open the storage of a study.

    Args:
        url: Of a database that several machines share; None for the file ``study.db`` in ``folder``.
        folder: The study's folder.

    Returns:
        The storage. On a shared one, trials give signs of life, and one that gives none is failed and begun again.

    Raises:
        ValueError: If it cannot be opened.
    """
    here = sqlalchemy.URL.create("sqlite", database=str(folder / "study.db")).render_as_string()
    try:
        if url is None:
            return RDBStorage(here, engine_kwargs={"connect_args": {"timeout": _LOCK_SECONDS}})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            retry = RetryHeartbeatStaleTrialCallback(max_retry=_MAX_RETRIES)
            return RDBStorage(
                url,
                heartbeat_interval=_HEARTBEAT_SECONDS,
                grace_period=_DEAD_SECONDS,
                heartbeat_stale_trial_callback=retry,
            )
    except _OPENING_ERRORS as error:
        cure = (
            "Remove the file, or name another study with --study." if url is None else "Check the URL and its driver."
        )
        raise ValueError(
            f"`storage` must be a database of Optuna, got {shown(url or here)!r}: {said(error)}. {cure}"
        ) from error


def shown(url: str) -> str:
    """A URL without its password."""
    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        return url


def said(error: BaseException) -> str:
    """What a database's error says, in one line."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")


def open_study(storage: RDBStorage, name: str, about: Mapping[str, Any], *, maximise: bool) -> optuna.Study:
    """Open a study, or begin it.

    Args:
        storage: From `open_storage`.
        name: Of the study.
        about: What it is about: texts, or lists of them.
        maximise: Whether larger values are better.

    Returns:
        The study.

    Raises:
        ValueError: If there is a study of that name about something else.
    """
    try:
        study = optuna.create_study(
            storage=storage, study_name=name, direction="maximize" if maximise else "minimize", load_if_exists=True
        )
    except STORAGE_ERRORS as error:
        raise ValueError(f"`study` must be one that Optuna can open, got {name!r}: {said(error)}.") from error
    cure = "Name another study with --study."
    if _ABOUT not in study.user_attrs:
        if study.get_trials(deepcopy=False):
            raise ValueError(f"`study` must be one of `nnunet-dro tune`, got {name!r}, which is not. {cure}")
        study.set_user_attr(_ABOUT, dict(about))
    before = study.user_attrs[_ABOUT]
    for key, value in about.items():
        if before.get(key) != value:
            raise ValueError(
                f"`study` must be about the same {key}, got {_text(value)!r} for {name!r}, whose {key} is "
                f"{_text(before.get(key))!r}. {cure}"
            )
    return study


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def fail_what_was_left_running(study: optuna.Study) -> list[int]:
    """Fail the trials that a killed start has left running, and queue them to go on where they stopped.

    Only where no other process works on the study; see `alone`.

    Returns:
        Their numbers.
    """
    left = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in left:
        # Attributes of a trial that is over cannot be set.
        study._storage.set_trial_user_attr(trial._trial_id, "reason", "killed")
        study.tell(trial.number, state=TrialState.FAIL)
        if trial.params:
            study.enqueue_trial(trial.params)
    return [trial.number for trial in left]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make sure that no other process of this machine works in a study's folder.

    Args:
        folder: The study's folder, which is there.

    Raises:
        ValueError: If one does.
    """
    lock = FileLock(folder / "study.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        cure = "Wait for it, or share a database between them with --storage."
        raise ValueError(f"`study` must be tuned by one process at a time, got {str(folder)!r}. {cure}") from error
    except NotImplementedError:
        pass  # A file system without locks, as filelock said it before 3.14: nobody can tell.
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()
