"""Sweeps on other processes and machines: the same bits as here, whatever is lost on the way.

The clusters are real, if small: processes of one thread on this machine.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, create_autospec

import joblib
import numba
import pytest
import xarray as xr

from opportune.analysis.results import load
from opportune.cli import main as cli
from opportune.errors import InputError, OpportuneError
from opportune.policy import Budget, Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.simulation import cluster
from opportune.simulation import pack as batch
from opportune.simulation import run as api
from opportune.simulation.cluster import chosen_workers, connect, spread
from opportune.simulation.cpu import run_batch
from opportune.simulation.run import simulate
from opportune.worlds.linear import synthetic_worlds

ROOT = Path(__file__).resolve().parents[2]
CASES = ("totals", "traced", "shared", "optimistic")


def run(case: str, replicates: int = 70) -> xr.Dataset:
    """A sweep with more chunks than workers; `shared` and `optimistic` run policies in two groups."""
    policies: list[Policy] = [pd2_ucb(10), pd1_ucb(10), naive_ucb(10)]
    worlds = synthetic_worlds(3, seed=1, known=case != "optimistic")
    if case == "shared":
        policies.append(pd2_ucb(Budget(20, shared=True), name="shared"))
    if case == "optimistic":
        policies.append(pd2_ucb(10, unknown="optimistic", name="optimistic"))
    return simulate(worlds, policies, horizon=50, replicates=replicates, seed=5, trace=case == "traced", progress=False)


def long_run(**changes: Any) -> xr.Dataset:
    """A sweep of some seconds, so that there is a middle in which things can happen."""
    return simulate(
        synthetic_worlds(4, seed=1), [pd2_ucb(10), pd1_ucb(10)], horizon=2000, replicates=640, seed=5,
        trace=False, progress=False, **changes,
    )  # fmt: skip


def assert_same_bits(data: xr.Dataset, expected: xr.Dataset) -> None:
    assert set(data.variables) == set(expected.variables)
    for name in expected.data_vars:
        assert data[name].dtype == expected[name].dtype
        assert data[name].values.tobytes() == expected[name].values.tobytes(), name


@pytest.fixture(scope="module")
def here() -> dict[str, xr.Dataset]:
    """What comes out on this machine, without any cluster."""
    return {case: run(case) for case in CASES}


@pytest.fixture(scope="module")
def here_long() -> xr.Dataset:
    return long_run()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The pauses before lost work is done again, which are short here."""
    sleep = Mock(wraps=time.sleep)
    monkeypatch.setattr(cluster, "PAUSE", 0.1)
    monkeypatch.setattr(cluster, "time", SimpleNamespace(sleep=sleep))
    return sleep


def after(results: int, action: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something happen once, when so many results have come in."""
    put = batch.Output.put
    count = 0

    def counted(self: batch.Output, *arguments: Any) -> None:
        nonlocal count
        put(self, *arguments)
        count += 1
        if count == results:
            action()

    monkeypatch.setattr(batch.Output, "put", counted)


def interrupt_after(finished: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Ctrl-C come as soon as so many replicates are finished, whichever chunks came first."""

    @contextmanager
    def progress(*_: object) -> Iterator[Callable[[int], None]]:
        def show(done: int) -> None:
            if done >= finished:
                raise KeyboardInterrupt  # no signal: it might reach whatever runs the tests

        yield show

    monkeypatch.setattr(api, "_progress", progress)


# Which workers


def test_without_a_choice_the_threads_of_this_process_work() -> None:
    """Without a joblib backend, all of Numba's threads take part."""
    assert chosen_workers() == (None, 1, numba.get_num_threads())


def test_nothing_is_imported_to_find_that_nothing_was_chosen() -> None:
    """A plain simulation does without joblib, Dask and Ray: they are slow to import."""
    code = (
        "import sys, opportune.simulation.run, opportune.simulation.cluster as c; c.chosen_workers();"
        "sys.exit(bool({'joblib', 'distributed', 'ray'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("settings", [{"backend": "threading", "n_jobs": 1}, {"n_jobs": 1}])
def test_a_number_of_jobs_is_that_of_threads(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """If joblib says one job, or one thread, one thread works."""
    ran = Mock(wraps=run_batch)
    monkeypatch.setattr(api, "run_batch", ran)
    with joblib.parallel_config(**settings):
        run("totals", replicates=2)
    run("totals", replicates=2)
    threads = [call.args[-1] for call in ran.call_args_list]
    half = len(threads) // 2
    assert threads == [*[1] * half, *[numba.get_num_threads()] * half]


def test_a_chosen_backend_is_used() -> None:
    """The default backend of joblib counts if it was chosen, and only then; by default, with all workers."""
    with joblib.parallel_config("loky", inner_max_num_threads=3):
        backend, jobs, threads = chosen_workers()
        assert type(backend).__name__ == "LokyBackend"
        assert (jobs, threads) == (-1, 3)
    with joblib.parallel_config("loky", n_jobs=2):
        assert chosen_workers()[1:] == (2, 1)
    assert chosen_workers().backend is None


# Processes on this machine


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_processes_give_the_same_bits(backend: str, case: str, here: dict[str, xr.Dataset]) -> None:
    """Traced or not, with shared budgets or policies of two kinds: processes give what threads give."""
    if backend == "multiprocessing" and "ray" in sys.modules:
        pytest.skip("Ray's joblib backend puts its own pools in the place of multiprocessing's")
    with joblib.parallel_config(backend, n_jobs=2):
        assert_same_bits(run(case), here[case])


def test_work_is_split_by_policies_if_a_replicate_is_much(
    here: dict[str, xr.Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk has few policies where one replicate of all is more than a chunk should be."""
    monkeypatch.setattr(api, "SENT_TRACE_STEPS", 60)
    put = create_autospec(batch.Output.put, side_effect=batch.Output.put)
    monkeypatch.setattr(batch.Output, "put", put)
    with joblib.parallel_config("loky", n_jobs=2):
        assert_same_bits(run("traced"), here["traced"])
    assert [call.args[2].size for call in put.call_args_list] == [1] * 3 * 70


def die_once(folder: str, number: int) -> int:
    """Work that takes its worker with it, the first time it is done."""
    mark = Path(folder) / f"tried-{number}"
    first = not mark.exists()
    mark.touch()
    if number == 3 and first:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die(_: None, number: int) -> int:
    if number:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(_: None, number: int) -> int:
    if number == 1:
        raise KeyError("a bug")
    return number


def test_work_of_a_killed_process_is_done_again(tmp_path: Path, pauses: Mock) -> None:
    """Each result comes once, also those of work that was lost with its process."""
    with joblib.parallel_config("loky", n_jobs=2):
        results = list(spread(chosen_workers(), die_once, str(tmp_path), range(8)))
    assert sorted(results) == [(n, n * n) for n in range(8)]
    assert pauses.called


def test_work_that_always_kills_its_process_is_given_up(pauses: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts without a result the error says so; it does not go on for ever."""
    monkeypatch.setattr(cluster, "ATTEMPTS", 2)
    with (
        joblib.parallel_config("loky", n_jobs=2),
        pytest.raises(OpportuneError, match=r"workers were lost 2 times in a row, with \d of 3 chunks left"),
    ):
        list(spread(chosen_workers(), die, None, [0, 1, 2]))
    assert pauses.called


def test_an_error_in_the_work_is_raised_at_once(pauses: Mock) -> None:
    """Only lost work is done again: a bug would be one the second time, too."""
    with joblib.parallel_config("loky", n_jobs=2), pytest.raises(KeyError, match="a bug"):
        list(spread(chosen_workers(), fail, None, range(4)))
    assert not pauses.called


def test_ctrl_c_keeps_the_replicates_that_are_complete(monkeypatch: pytest.MonkeyPatch, here_long: xr.Dataset) -> None:
    """Interrupted between results: the first replicates are returned, as many as have all their chunks."""
    interrupt_after(20, monkeypatch)
    with (
        joblib.parallel_config("loky", n_jobs=2),
        pytest.warns(RuntimeWarning, match="interrupted: .* of 640"),
    ):
        data = long_run(on_interrupt="return")
    kept = data.sizes["replicate"]
    assert 0 < kept < 640
    assert data.attrs["interrupted"] == 1
    assert_same_bits(data, here_long.isel(replicate=slice(kept)))


def small_study() -> None:
    """Write a small study, my.toml, into the present folder."""
    example = (ROOT / "src/opportune/study/examples/stress-messages.toml").read_text(encoding="utf-8")
    small = re.sub(r"replicates = \d+", "replicates = 4", re.sub(r"horizon = \d+", "horizon = 30", example))
    Path("my.toml").write_text(small, encoding="utf-8")


def test_the_command_runs_on_local_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`opportune simulate --cluster local` writes the numbers that it writes without a cluster."""
    monkeypatch.chdir(tmp_path)
    small_study()
    sent = Mock(wraps=spread)
    monkeypatch.setattr(api, "spread", sent)
    assert cli.run(["simulate", "my.toml", "--out", "here"]) == 0
    assert cli.run(["simulate", "my.toml", "--out", "there", "--cluster", "local"]) == 0
    assert [type(call.args[0].backend).__name__ for call in sent.call_args_list] == ["LokyBackend"]
    name = "stress-messages.nc"
    assert_same_bits(load(Path("there") / name), load(Path("here") / name))


# Dask


@pytest.fixture(scope="module")
def dask_client() -> Iterator[Any]:
    """A Dask cluster of two processes, and a client of it."""
    with dask_cluster() as client:
        yield client


@contextmanager
def dask_cluster(*, n_workers: int = 2, forgiven: int = 3) -> Iterator[Any]:
    """A client of a new Dask cluster, which reruns a chunk so many times if its workers die."""
    dask, distributed = import_module("dask"), import_module("distributed")
    settings = {"distributed.scheduler.allowed-failures": forgiven}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit="1GiB",
            dashboard_address=":0",
            silence_logs=50,
        ) as servers,
        distributed.Client(servers) as client,
    ):
        yield client


@pytest.mark.cluster
@pytest.mark.parametrize("case", CASES)
def test_dask_gives_the_same_bits(case: str, dask_client: Any, here: dict[str, xr.Dataset]) -> None:
    """Traced or not, with shared budgets or policies of two kinds: a Dask cluster gives what threads give."""
    with joblib.parallel_config("dask", client=dask_client):
        assert_same_bits(run(case), here[case])


@pytest.mark.cluster
@pytest.mark.parametrize("forgiven", [0, 3])
def test_a_killed_dask_worker_costs_nothing(
    forgiven: int, here_long: xr.Dataset, monkeypatch: pytest.MonkeyPatch, pauses: Mock
) -> None:
    """A worker dies in the middle of a sweep: Dask reruns its chunk or gives it up, nothing is missing."""
    with dask_cluster(forgiven=forgiven) as client:
        pids: dict[str, int] = client.run(os.getpid)
        killed: list[str] = []

        def kill_a_busy_worker() -> None:
            busy = [address for address, tasks in client.processing().items() if tasks]
            killed.append(busy[0])
            os.kill(pids[busy[0]], signal.SIGKILL)

        after(3, kill_a_busy_worker, monkeypatch)
        with joblib.parallel_config("dask", client=client):
            assert_same_bits(long_run(), here_long)
    assert len(killed) == 1
    assert pauses.called == (forgiven == 0)


@pytest.mark.cluster
def test_other_errors_of_dask_workers_are_raised_at_once(
    dask_client: Any, monkeypatch: pytest.MonkeyPatch, pauses: Mock
) -> None:
    """Workers with another version of the package would give other bits: they refuse, and that is told."""
    monkeypatch.setattr(api, "VERSION", "0.0.other")
    with (
        joblib.parallel_config("dask", client=dask_client),
        pytest.raises(InputError, match=r"expected 0\.0\.other"),
    ):
        run("totals")
    assert not pauses.called


@pytest.mark.cluster
def test_ctrl_c_leaves_nothing_behind_on_a_dask_cluster(
    dask_client: Any, here_long: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted: complete replicates are kept, chunks that wait are cancelled."""
    interrupt_after(20, monkeypatch)
    with (
        joblib.parallel_config("dask", client=dask_client),
        pytest.warns(RuntimeWarning, match="interrupted"),
    ):
        data = long_run(on_interrupt="return")
    assert_same_bits(data, here_long.isel(replicate=slice(data.sizes["replicate"])))
    until = time.monotonic() + 10
    while any(dask_client.processing().values()) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(dask_client.processing().values())


@pytest.mark.cluster
def test_connect_to_a_dask_scheduler(dask_client: Any, here: dict[str, xr.Dataset]) -> None:
    """dask://HOST:PORT: simulations run there while the connection lasts, and here afterwards."""
    address = dask_client.scheduler.address.replace("tcp://", "dask://")
    with connect(address):
        assert type(chosen_workers().backend).__name__ == "DaskDistributedBackend"
        assert_same_bits(run("traced"), here["traced"])
    assert chosen_workers().backend is None


@pytest.mark.cluster
def test_connect_says_that_workers_are_awaited() -> None:
    """A scheduler without workers may get some; whoever waits should know what for."""
    with dask_cluster(n_workers=0) as client:
        address = client.scheduler.address.replace("tcp://", "dask://")
        with pytest.warns(RuntimeWarning, match=f"cluster {address} has no workers yet"), connect(address):
            pass


# Ray


@pytest.fixture(scope="module")
def ray_instance(here: dict[str, xr.Dataset]) -> Iterator[None]:
    """Ray on this machine: two processes and a small store."""
    ray = import_module("ray")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": 50}
    ray.init("local", num_cpus=2, object_store_memory=100 * 2**20, **quiet)
    import_module("ray.util.joblib").register_ray()
    yield
    ray.shutdown()


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("case", CASES)
def test_ray_gives_the_same_bits(case: str, here: dict[str, xr.Dataset]) -> None:
    """Traced or not, with shared budgets or policies of two kinds: Ray gives what threads give."""
    with joblib.parallel_config("ray"):
        assert_same_bits(run(case), here[case])


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_instance")
def test_a_killed_ray_worker_costs_nothing(
    here_long: xr.Dataset, monkeypatch: pytest.MonkeyPatch, pauses: Mock
) -> None:
    """A worker dies in the middle of a sweep: its chunks are done again, nothing is missing."""

    def kill_a_worker() -> None:
        children = import_module("psutil").Process().children(recursive=True)
        next(p for p in children if "PoolActor" in " ".join(p.cmdline())).kill()

    after(3, kill_a_worker, monkeypatch)
    with joblib.parallel_config("ray"):
        assert_same_bits(long_run(), here_long)
    assert pauses.called


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_instance")
def test_connect_does_not_take_over_a_connection_to_ray() -> None:
    """A process has one connection to Ray: the caller's is left alone."""
    with pytest.raises(InputError, match="already connected to Ray"), connect("ray://local"):
        pass


@pytest.mark.cluster
def test_the_command_runs_on_a_ray_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`opportune simulate --cluster ray://HOST:PORT` writes the numbers that it writes without a cluster."""
    pytest.importorskip("grpc", reason="Ray's client needs it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else a cluster that others cannot reach asks for a token
    small_study()
    with ray_cluster() as address:
        main = [sys.executable, "-c", "from opportune.cli.main import main; main()", "simulate", "my.toml"]
        for options in (["--out", "here"], ["--out", "there", "--cluster", address]):
            subprocess.run([*main, *options], check=True, capture_output=True)
    name = "stress-messages.nc"
    assert_same_bits(load(Path("there") / name), load(Path("here") / name))


@contextmanager
def ray_cluster() -> Iterator[str]:
    """A Ray cluster of its own, as `ray start` makes it; gives its address."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, client_port = (taken.getsockname()[1] for taken in (one, other))
    options = [f"--port={port}", f"--ray-client-server-port={client_port}", f"--object-store-memory={100 * 2**20}"]
    options += ["--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    head = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *options]
    with subprocess.Popen(head, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(("127.0.0.1", client_port))
            yield f"ray://127.0.0.1:{client_port}"
        finally:
            process.terminate()


def wait_for(place: tuple[str, int]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            socket.create_connection(place, timeout=1).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    pytest.fail(f"nothing listens at {place} after a minute")


# Addresses


@pytest.mark.parametrize(
    "address",
    ["", "dask", "dask://", "dask://host", "dask://host:port", "dask://host:99999", "tcp://host:8786",
     "ray://:10001", "host:8786", "dask://host:1/path", "dask://me@host:1", "Local"],
)  # fmt: skip
def test_a_wrong_address_is_refused_with_the_right_form(address: str) -> None:
    """An address that is none is named together with what one looks like."""
    expected = re.escape(f"cluster is {address!r}; expected dask://HOST:PORT, ray://HOST:PORT, ray://local or local")
    with pytest.raises(InputError, match=f"^{expected}$"), connect(address):
        pass


@pytest.mark.parametrize("scheme", ["dask", "ray"])
def test_a_cluster_that_does_not_answer_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens: the error names the address, soon."""
    monkeypatch.setitem(sys.modules, "grpc", api)  # Ray's client need not be installed for this
    with socket.socket() as taken:  # a port of our own, at which we do not listen
        taken.bind(("127.0.0.1", 0))
        address = f"{scheme}://127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"^cluster {address} cannot be reached within 10 s"),
            connect(address),
        ):
            pass


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_what_is_no_scheduler_is_named(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something listens, but it does not speak Dask: it says nothing, or something else."""
    monkeypatch.setattr(cluster, "REACH", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as thread:
        thread.submit(answer, other, greeting)
        address = f"dask://127.0.0.1:{other.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"^cluster {address} answers, but not as a Dask scheduler"),
            connect(address),
        ):
            pass


def answer(server: socket.socket, greeting: bytes) -> None:
    """Greet two callers: one that tries whether anybody is there, one that wants to talk."""
    with server.accept()[0], server.accept()[0] as caller:
        caller.sendall(greeting)
        caller.recv(2**16)  # until the caller has had enough


@pytest.mark.parametrize(
    ("address", "module", "name"),
    [
        ("local", "joblib", "joblib"),
        ("dask://h:1", "joblib", "joblib"),
        ("dask://h:1", "distributed", "Dask"),
        ("ray://h:1", "ray", "Ray"),
        ("ray://h:1", "grpc", "Ray's client"),
    ],
)
def test_a_missing_library_is_named_with_the_way_to_get_it(
    address: str, module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra, the error says which to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(InputError, match=rf"^{name} is not installed .*pip install 'opportune\[cluster\]'"),
        connect(address),
    ):
        pass


def test_a_wrong_cluster_is_a_wrong_use_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with code 2 and one line that says what was expected."""
    monkeypatch.chdir(tmp_path)
    small_study()
    assert cli.run(["simulate", "my.toml", "--cluster", "host:8786"]) == 2
    assert "opportune: error: cluster is 'host:8786'; expected dask://HOST:PORT" in capsys.readouterr().err
