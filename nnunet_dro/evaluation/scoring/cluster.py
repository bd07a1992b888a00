"""Work spread over a dask cluster.

Each item is done once in the result, also if workers are lost meanwhile.
"""

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

from nnunet_dro.bad_input import InputError
from nnunet_dro.naming import extra_cure

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: How long to wait for the scheduler, and for its first worker, seconds.
PATIENCE_S = 30.0


def each_done(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    jobs: int | None,
    workers: str | None,
) -> Generator[_Result, None, None]:
    """The results of a function of every item, as they come.

    Several at a time, or on the workers of a cluster.
    """
    if workers is not None:
        return done_on_cluster(workers, function, items)

    from joblib import Parallel, delayed

    # Inflating and numpy's loops release the interpreter's lock, and threads import nothing again.
    parallel = Parallel(n_jobs=jobs, prefer="threads", return_as="generator_unordered")
    return parallel(delayed(function)(item) for item in items)


def absolute(files: _Item) -> _Item:
    """A dataclass of files with their paths from the root: workers may run in other folders."""
    values: dict[str, Any] = dict(vars(files))
    for name, value in values.items():
        if isinstance(value, Path):
            values[name] = value.absolute()
    return type(files)(**values)


def done_on_cluster(
    address: str, function: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Generator[_Result, None, None]:
    """The results of a function of every item, as they come, on the workers of a dask cluster.

    If a worker is lost, dask gives to others what it was doing and what it had not yet handed over.
    The workers need this package and see the same files under the same paths.
    """
    try:
        from distributed import Client, as_completed
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise InputError(
            "workers",
            must="come with the package dask",
            got=f"{address!r} without it",
            cure=extra_cure("cluster"),
        ) from error

    with _client(Client, address) as client:
        # Not pure: the same file may have been written again since another run.
        futures = client.map(function, list(items), pure=False)
        completed = cast(Any, as_completed)(futures, loop=client.loop, with_results=True)
        try:
            for _, result in completed:
                yield result
        except KilledWorker as error:
            cure = "Look into the logs of the workers: often their memory is too small."
            raise ValueError(
                f"`workers` must be able to score, but {error.last_worker} stopped. {cure}"
            ) from error
        except ImportError as error:
            raise InputError(
                "workers",
                must="have nnunet-dro",
                got=f"{address!r}, where {error}",
                cure="Install the same version there.",
            ) from error
        finally:
            client.cancel(futures)


def _client(client_type: Any, address: str) -> Any:
    """A connection to a scheduler that has workers."""
    try:
        client = client_type(
            address,
            timeout=PATIENCE_S,
            set_as_default=False,
            name="nnunet-dro",
        )
    # On a busy machine, dask's own assertions can fail while it waits.
    except (OSError, TimeoutError, ValueError, TypeError, AssertionError) as error:
        raise InputError(
            "workers",
            must="be the address of a dask scheduler",
            got=repr(address),
            cure="Start one with `dask scheduler`, and give the address that it prints.",
        ) from error

    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except (OSError, TimeoutError) as error:
        client.close()
        raise InputError(
            "workers",
            must="be a scheduler with workers",
            got=f"{address!r} without any",
            cure=f"Start some with `dask worker {address}`.",
        ) from error
    return client
