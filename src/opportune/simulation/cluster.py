"""Work for other processes and machines: which workers the caller has chosen, and how they get their work.

A caller chooses workers through joblib, `with joblib.parallel_config("dask"): ...`, or by address,
`with connect("dask://HOST:PORT"): ...`. `spread` distributes work and yields results as they arrive; work lost
with its worker is done again.
"""

import asyncio
import copy
import logging
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numba

from opportune import checks
from opportune.errors import InputError, OpportuneError

ATTEMPTS = 4  # in a row without a single result, before giving up
PAUSE = 1.0  # seconds before the next attempt, longer each time, since a worker takes a moment to restart
REACH = 10.0  # seconds within which a cluster must answer
FORMS = "dask://HOST:PORT, ray://HOST:PORT, ray://local or local"


class Workers(NamedTuple):
    """The workers of a joblib backend or, without a backend, the threads of this process."""

    backend: Any
    jobs: int  # number of workers, as joblib counts them: -1 means all
    threads: int  # threads of each worker; without a backend, of this process


class WorkerLost(Exception):  # noqa: N818  (callers never see it: the work is done again)
    """A worker disappeared, and its work with it."""


def chosen_workers() -> Workers:
    """The workers that the caller has chosen through joblib, else the threads of this process.

    joblib keeps this choice for libraries to query. Asked for the active backend with threads preferred, it returns its
    threads if nothing was chosen, and otherwise the chosen backend. If joblib has not been imported, nobody has chosen
    anything.
    """
    parallel = sys.modules.get("joblib.parallel")
    if parallel is None:
        return Workers(None, 1, numba.get_num_threads())
    backend, _ = parallel.get_active_backend(prefer="threads")
    _, jobs = parallel.get_active_backend()
    if getattr(backend, "supports_sharedmem", False):  # joblib's threads, which ours replace at less cost
        return Workers(None, 1, numba.get_num_threads() if jobs is None else backend.effective_n_jobs(jobs))
    return Workers(backend, -1 if jobs is None else jobs, getattr(backend, "inner_max_num_threads", None) or 1)


def spread(
    workers: Workers, function: Callable[[Any, Any], Any], common: Any, items: Sequence[Any]
) -> Generator[tuple[int, Any]]:
    """Compute function(common, item) for every item; yields (number of the item, result) as results arrive.

    Items lost with their worker are computed again; results already yielded stay valid. Any other error is raised at
    once. Workers must be able to import `function`.
    """
    left = dict(enumerate(items))
    by = _by_dask if hasattr(workers.backend, "client") else _by_joblib
    attempts = 0
    while left:
        try:
            with closing(by(workers, function, common, left.copy())) as results:
                for number, result in results:
                    del left[number]
                    attempts = 0
                    yield number, result
        except WorkerLost as lost:
            attempts += 1
            if attempts == ATTEMPTS:
                raise OpportuneError(
                    f"workers were lost {ATTEMPTS} times in a row, with {len(left)} of {len(items)} chunks "
                    f"left; expected stable workers (do they have enough memory?); the last loss: {lost}"
                ) from lost.__cause__
            time.sleep(PAUSE * attempts)


def _by_joblib(
    workers: Workers, function: Callable[[Any, Any], Any], common: Any, items: Mapping[int, Any]
) -> Generator[tuple[int, Any]]:
    """Run the items through joblib. A lost worker ends this, as joblib drops all unfinished work."""
    import joblib  # noqa: PLC0415  (slow to import)

    backend = workers.backend
    if type(backend).__name__ == "RayBackend":
        # Ray's backend inherits this flag from multiprocessing, whose pools may hang if results are taken as they come.
        # Ray itself does not: a separate thread waits for each result.
        backend = copy.copy(backend)
        backend.supports_return_generator = True
    streaming = backend.supports_return_generator
    return_as = "generator_unordered" if streaming else "list"
    parallel = joblib.Parallel(n_jobs=workers.jobs, backend=backend, batch_size=1, return_as=return_as)
    call = joblib.delayed(_numbered)
    try:
        results = parallel(call(number, function, common, item) for number, item in items.items())
        try:
            for result in results:  # noqa: UP028  (`yield from` would close `results` before the `finally`)
                yield result
        finally:
            if streaming:
                with warnings.catch_warnings():  # joblib warns of results not taken if the caller was interrupted
                    warnings.filterwarnings("ignore", message=".*tasks", category=UserWarning)
                    results.close()
    except _losses() as error:
        raise WorkerLost(f"{type(error).__name__}: {error}") from error


def _numbered(number: int, function: Callable[[Any, Any], Any], common: Any, item: Any) -> tuple[int, Any]:
    """A result with its number, as results arrive in any order."""
    return number, function(common, item)


def _losses() -> tuple[type[Exception], ...]:
    """The exceptions that joblib's backends raise if a worker disappears."""
    losses: list[type[Exception]] = [BrokenProcessPool, ConnectionError]
    if "ray" in sys.modules:
        from ray import exceptions as ray  # noqa: PLC0415

        losses += [ray.RayActorError, ray.WorkerCrashedError, ray.NodeDiedError, ray.LocalRayletDiedError]
        losses += [ray.ObjectLostError, ray.OutOfMemoryError]
    return tuple(losses)


def _by_dask(
    workers: Workers, function: Callable[[Any, Any], Any], common: Any, items: Mapping[int, Any]
) -> Generator[tuple[int, Any]]:
    """Run the items through the client of joblib's Dask backend; raises `WorkerLost` at the end if workers were lost.

    joblib itself would wait for ever for work that Dask has given up (it hears only of results), count the workers only
    once although a cluster may grow, and keep the work here if it counts only one.
    """
    dask = _library("distributed", "Dask")
    losses = (dask.KilledWorker, dask.CancelledError, dask.comm.CommClosedError, ConnectionError)
    client, options = workers.backend.client, workers.backend.submit_kwargs
    if client.status == "closed":  # the client searches for the scheduler for a while, then gives up
        raise OpportuneError(f"the Dask scheduler is gone, with {len(items)} chunks left; expected a stable one")
    # The common part may be large; it goes to the scheduler once, and from there to each worker once.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        shared = client.submit(_same, common, pure=False, **options)
    futures = {client.submit(function, shared, item, pure=False, **options): number for number, item in items.items()}
    lost: BaseException | None = None
    try:
        done = dask.as_completed(list(futures), loop=client.loop, with_results=True, raise_errors=False)
        for future, result in done:
            number = futures.pop(future)
            if future.status == "finished":
                yield number, result
                continue
            # an error comes as its type, the exception and its traceback; anything else means cancelled work
            error = result[1] if isinstance(result, tuple) else result
            if not isinstance(error, losses):
                raise error
            lost = error
    finally:
        if client.status == "running":
            client.cancel([*futures, shared])
    if lost is not None:
        raise WorkerLost(f"{type(lost).__name__}: {lost}") from lost


def _same(value: Any) -> Any:
    """The value as a task: unlike scattered data, Dask recomputes it if its worker is lost."""
    return value


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Run simulations on a cluster inside this context.

    Args:
        address: "dask://HOST:PORT", a Dask scheduler; "ray://HOST:PORT", a Ray client server; "ray://local",
            Ray on this machine; or "local", processes on this machine, one for each core.

    """
    check_address(address)
    if address == "local":
        joblib = _library("joblib", "joblib")
        with _quiet_tracker(), joblib.parallel_config("loky", n_jobs=numba.get_num_threads()):
            yield
        return
    scheme, host, port = _parts(address)
    with (_connect_dask if scheme == "dask" else _connect_ray)(address, host, port):
        yield


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """Silence the tracker of the processes' semaphores about those that an interrupt leaves; it removes them anyway."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [before, "ignore:resource_tracker"]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def check_address(address: Any) -> None:
    """Reject an invalid cluster address before doing any work."""
    if not isinstance(address, str):
        raise InputError(f"cluster is {checks.brief(address)}; expected {FORMS}")
    if address != "local":
        _parts(address)


def _parts(address: str) -> tuple[str, str, int]:
    """Scheme, host and port of an address; the port of ray://local is 0."""
    wrong = InputError(f"cluster is {checks.brief(address)}; expected {FORMS}")
    if address == "ray://local":
        return "ray", "local", 0
    try:
        parts = urlsplit(address)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:  # the port is not a number
        raise wrong from None
    rest = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if scheme not in {"dask", "ray"} or not host or not port or rest:
        raise wrong
    return scheme, host, port


@contextmanager
def _connect_dask(address: str, host: str, port: int) -> Iterator[None]:
    joblib, dask = _library("joblib", "joblib"), _library("distributed", "Dask")
    _reach(address, host, port)
    place = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
    try:
        with ThreadPoolExecutor(1) as thread:  # this thread may already run an event loop, as in a notebook
            thread.submit(asyncio.run, _greet(dask, place)).result()
    except Exception as error:
        what = f"{type(error).__name__} {error}".strip()
        raise InputError(f"cluster {address} answers, but not as a Dask scheduler ({what})") from None
    with dask.Client(place, timeout=REACH, set_as_default=False) as client:
        if not client.nthreads():
            message = f"cluster {address} has no workers yet: waiting for the first"
            warnings.warn(message, RuntimeWarning, stacklevel=5)
        with joblib.parallel_config("dask", client=client):
            yield


async def _greet(dask: Any, place: str) -> None:
    """Ask a scheduler to identify itself. A client would wait for ever for one that accepts calls but never answers."""
    async with dask.rpc(place) as scheduler:
        await asyncio.wait_for(scheduler.identity(), REACH)


@contextmanager
def _connect_ray(address: str, host: str, port: int) -> Iterator[None]:
    joblib, ray = _library("joblib", "joblib"), _library("ray", "Ray")
    if port:
        _library("grpc", "Ray's client")
        _reach(address, host, port)
    if ray.is_initialized():
        raise InputError(
            f"cluster is {address!r}, but this process is already connected to Ray; "
            "expected no connection, or joblib.parallel_config('ray') to use that one"
        )
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if port:
        try:
            with warnings.catch_warnings():  # Ray warns that it could not connect; the error below reports it
                warnings.filterwarnings("ignore", message="Ray Client connection", category=UserWarning)
                ray.init(address, **quiet)
        except (ConnectionError, RuntimeError) as error:
            raise InputError(f"cluster {address} answers, but not as a Ray client server ({error})") from None
    else:
        ray.init("local", num_cpus=numba.get_num_threads(), include_dashboard=False, **quiet)
    try:
        _library("ray.util.joblib", "Ray").register_ray()
        with joblib.parallel_config("ray", n_jobs=-1):
            yield
    finally:
        ray.shutdown()


def _reach(address: str, host: str, port: int) -> None:
    """Reject an address where nothing listens."""
    try:
        socket.create_connection((host, port), timeout=REACH).close()
    except OSError as error:
        raise InputError(
            f"cluster {address} cannot be reached within {REACH:g} s ({error}); expected one that runs at this address"
        ) from None


def _library(module: str, name: str) -> Any:
    """Import a module of an optional extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"{name} is not installed ({error}); expected it: pip install 'opportune[cluster]'") from None
