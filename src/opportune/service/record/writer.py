"""The writer: carries out all waiting commands in one transaction, and answers them once it is durable.

One thread per process owns the writing connection and the agents. A transaction that fails is rolled back, and the
agents it touched are read again from the database. Its commands are then retried one by one, so that a command that
fails does not affect the others.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec
import structlog
from sqlalchemy.exc import DBAPIError, IntegrityError

from opportune.errors import InputError, OpportuneError, WriteError
from opportune.service.commands.base import Command
from opportune.service.commands.decisions import Propose
from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.problems import Refused, as_json
from opportune.service.record.database import Database, Elsewhere
from opportune.service.record.idempotency import Answer
from opportune.service.record.transaction import Memory, Transaction
from opportune.service.state.packing import Unsound

MOST_AT_ONCE = 256
UNKNOWN_END = "an unexpected error ended the request; try again with the same key"
log = structlog.get_logger()


class Reply(NamedTuple):
    """The answer to a command: the status and the body, the same bytes for every retry."""

    status: int
    body: bytes


class Waiting(NamedTuple):
    """A waiting command and the future of its reply, which belongs to an event loop if `loop` is given."""

    command: Command
    future: "Future[Reply] | asyncio.Future[Reply]"
    loop: asyncio.AbstractEventLoop | None = None


class TooLate(Exception):  # noqa: N818  (a command was refused)
    """A command was refused after it had changed something: the transaction must be rolled back."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(str(refused))
        self.refused = refused


class Writer:
    """Carries out commands in batches; `submit` returns a future that is done once the answer is durable."""

    def __init__(
        self, database: Database, *, on_alert: Callable[[str, str, str | None, str], object] | None = None
    ) -> None:
        self.database = database
        self.memory = Memory()
        self.failing: str | None = None
        """Why the last transaction could not be stored; None if it was."""
        self.batches = 0
        self.written = 0
        self._alert = on_alert
        self._waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()  # None: stop
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the writer's thread."""
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is still waiting, then stop."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def submit(self, command: Command) -> "Future[Reply]":
        """Have a command carried out, in a batch with others that wait."""
        future: Future[Reply] = Future()
        self._waiting.put(Waiting(command, future))
        return future

    def submit_async(self, command: Command) -> "asyncio.Future[Reply]":
        """Have a command carried out, in a batch with others; the future is done in the running event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.put(Waiting(command, future, loop))
        return future

    def do(self, command: Command) -> Reply:
        """Carry out one command in the calling thread, for programs without a writer's thread.

        Raises `Refused` or `InputError` if the command was refused, and `WriteError` if nothing can be stored.
        """
        found = self.write([command])[0]
        if isinstance(found, Refused) and found.code == "unavailable":
            raise WriteError(f"{self.database.name} cannot be written ({self.failing})")
        if isinstance(found, Exception):
            raise found
        return found

    def _run(self) -> None:
        while batch := self._next():
            self.deliver(batch, self._write_anyway([item.command for item in batch]))

    def _next(self, most: int = MOST_AT_ONCE) -> list[Waiting]:
        """The waiting commands, as soon as there is one; empty once the writer stops and none is left."""
        first = self._waiting.get()
        batch = [] if first is None else [first]
        while batch and len(batch) < most:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._waiting.put(None)  # for the next call
                break
            batch.append(item)
        return batch

    def deliver(self, waiting: Sequence[Waiting], found: "Sequence[Reply | Exception]") -> None:
        """Hand out answers once they are durable; each event loop is woken once for all of its futures."""
        loops: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, Reply | Exception]]] = {}
        for item, reply in zip(waiting, found, strict=True):
            loops.setdefault(item.loop, []).append((item.future, reply))
        for loop, answered in loops.items():
            if loop is None:
                _answer_all(answered)
            else:
                with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
                    loop.call_soon_threadsafe(_answer_all, answered)

    @property
    def alive(self) -> bool:
        """Whether the writer's thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def _write_anyway(self, commands: Sequence[Command]) -> "list[Reply | Exception]":
        """Carry out commands; whatever happens, each is answered and the thread continues."""
        try:
            return self.write(commands)
        except Exception as error:
            log.error("batch failed", commands=len(commands), **described(error))
            return [Refused("internal", UNKNOWN_END) for _ in commands]

    def write(self, commands: Sequence[Command]) -> "list[Reply | Exception]":
        """Carry out commands in one transaction; if it fails, each in its own."""
        try:
            found = self._transaction(commands)
        except (DBAPIError, OSError) as error:
            if not isinstance(error, IntegrityError) or len(commands) == 1:
                return [self._unavailable(error) for _ in commands]
        except Elsewhere as error:
            return [self._elsewhere(error) for _ in commands]
        except Exception as error:
            log.error("batch failed", commands=len(commands), **described(error))
        else:
            return found
        return [self._alone(command) for command in commands]

    def _alone(self, command: Command) -> "Reply | Exception":
        """Carry out one command by itself; if the learned policy cannot decide or settle, the fallback does."""
        try:
            return self._transaction([command])[0]
        except (DBAPIError, OSError) as error:
            return self._unavailable(error)
        except TooLate as error:
            return error.refused
        except Exception as error:
            if command.settles:
                return self._fall_back(command, error)
            if isinstance(error, Unsound):
                return Refused("invalid", "refused: with this value the learned state would no longer be finite")
            return self._failed(error, command)

    def _fall_back(self, command: Command, error: Exception) -> "Reply | Exception":
        """Use the fallback only as far as needed: a policy that cannot decide may still settle the open nudge."""
        log.error("the learned policy could not be used", **described(error))
        another: Exception = error
        for what in ("fallback", "let_stand") if isinstance(command, Propose) else ("let_stand",):
            setattr(command, what, True)
            try:
                reply = self._transaction([command])[0]
            except (DBAPIError, OSError) as unavailable:
                return self._unavailable(unavailable)
            except TooLate as late:
                return late.refused
            except Exception as failed:
                another = failed
            else:
                if isinstance(reply, Reply):
                    self._alert_of_fallback(command, reply, error)
                return reply
        return self._failed(another, command)

    def _alert_of_fallback(self, command: Command, reply: Reply, error: Exception) -> None:
        why = error if isinstance(error, OpportuneError) else type(error).__name__
        what = "made" if isinstance(command, Propose) else "settled"
        about = msgspec.json.decode(reply.body).get("participant")  # None if the study is closed
        self._raise_alert("red", "fallback", about, f"A decision was {what} by the fallback: {why}")

    def _raise_alert(self, level: str, code: str, participant: str | None, text: str) -> None:
        """Raise an alert; a failure to do so is logged and changes no answer."""
        if self._alert is None:
            return
        try:
            self._alert(level, code, participant, text)
        except Exception as error:
            log.error("an alert could not be raised", level=level, code=code, **described(error))

    def _failed(self, error: Exception, command: Command) -> Refused:
        log.error("command failed", **described(error))
        if isinstance(command, Propose):
            self._raise_alert(
                "red", "undecided", command.participant, "A decision could not be made; the log says why."
            )
        elif command.records:
            self._raise_alert("red", "unrecorded", None, "Something could not be recorded; the log says what and why.")
        return Refused("internal", "the request could not be carried out; nothing was stored")

    def _unavailable(self, error: Exception) -> Refused:
        self.failing = _reason(getattr(error, "orig", error))
        log_sparingly("nothing can be stored", **described(getattr(error, "orig", None) or error))
        self.database.writing.dispose()  # the next transaction begins on a fresh connection
        return Refused("unavailable", "nothing can be stored at the moment; try again with the same key")

    def _elsewhere(self, error: Elsewhere) -> Refused:
        self.failing = str(error)
        log_sparingly("the study continues elsewhere", reason=self.failing)
        return Refused("unavailable", self.failing)

    def _transaction(self, commands: Sequence[Command]) -> "list[Reply | Exception]":
        transaction: Transaction | None = None
        try:
            with self.database.writing.connect() as connection, connection.begin():
                transaction = Transaction(connection, self.memory)
                abouts = [command.about() for command in commands]
                if transaction.study is not None:
                    transaction.read(
                        keys=[(command.who, command.key) for command in commands if command.key],
                        names=[name for name, _ in abouts if name is not None],
                        ids=[decision for _, decision in abouts if decision is not None],
                    )
                found = [self._carry_out(transaction, command) for command in commands]
                transaction.flush()
                self.database.require_file()
            transaction.committed()
            if transaction.wrote:
                self.failing = None
            if transaction.rebuilt:
                self._raise_alert(
                    "yellow", "rebuilt", None, "A stored state could not be read; it was made from the record."
                )
        except BaseException:
            self.memory.forget(None if transaction is None or transaction.rebuilt else [*transaction.participants])
            raise
        self.batches += 1
        self.written += len(commands)
        return found

    def _carry_out(self, transaction: Transaction, command: Command) -> "Reply | Exception":
        """Carry out one command of a transaction. A refusal has changed nothing: checks come before events."""
        key = (command.who, command.key)
        before = transaction.answers.find(key) if command.key else None
        if before is not None:
            if before.fingerprint == command.fingerprint:
                return Reply(before.status, before.body)
            return Refused("key_reused", "the idempotency key was used before with other content")
        seq = transaction.seq
        try:
            status, answer = command.run(transaction)
        except (InputError, Refused) as error:
            refused = error if isinstance(error, Refused) else Refused("invalid", str(error))
            if transaction.seq != seq or transaction.applying:
                raise TooLate(refused) from error
            return refused
        body = as_json(answer)
        if command.key:
            transaction.answers.add(key, Answer(command.fingerprint, status, body))
        return Reply(status, body)


def _reason(error: BaseException) -> str:
    """Why nothing can be stored; of a server's error only its type, as the message may contain row values."""
    if isinstance(error, sqlite3.Error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _answer_all(answered: "Sequence[tuple[Future[Reply] | asyncio.Future[Reply], Reply | Exception]]") -> None:
    for future, reply in answered:
        if future.done():  # the client has gone
            continue
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)
