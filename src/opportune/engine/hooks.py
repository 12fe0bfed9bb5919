"""The registries of revealers, recommenders and worlds, and how compiled code finds the right one.

Each kind has a registry; an entry is a class with settings and compiled functions. A *hook* is a place in the step
functions where the entry's own function is called: `consult(kind, ...)` compiles to a chain of `if kind == 0: ...
if kind == 1: ...` over the entries registered by then. On a GPU the chain covers only the entries that a kernel is
built for; the simulator, which runs Python, looks the function up.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numba.extending import overload

from opportune.engine.compiled import NUMBERS, PART, extensions, loaded, registered

# The modules whose compiled code contains chains of hooks.
HOOKED = tuple(
    f"opportune.{name}"
    for name in ("algorithm.protocol", "algorithm.chances", "algorithm.snapshot", "simulation.", "live.")
)


class Registry:
    """The classes of one kind, in the order of their numbers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: list[Any] = []
        self._named: dict[str, Any] = {}
        self.hooks: dict[str, Any] = {}
        self.compiled = False

    def add(self, entry: Any, *, files: Mapping[Path, str] | None = None) -> Any:
        """Assign a class its number.

        For a class from outside the package, `files` with their hashes identify its compiled code.
        """
        entry.number = len(self.entries)
        self.entries.append(entry)
        self._named[entry.__name__] = entry
        if files:
            extensions.update(files)
            registered.append(f"{self.kind} {entry.__qualname__}")
        return entry

    @property
    def closed(self) -> bool:
        """Whether this process has compiled code that lacks entries registered later."""
        return self.compiled or any(module.startswith(HOOKED) for module in loaded)

    def named(self) -> Mapping[str, Any]:
        """The classes by the names that saved policies use."""
        return self._named

    def kinds(self) -> dict[str, Any]:
        """The classes by the names that study files use."""
        return {entry.kind: entry for entry in self.entries}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def hook(self, name: str, arguments: str) -> Any:
        """A function (kind, p, *arguments) that calls `name(p, own, *arguments)` of the entry with that number.

        `own` contains the groups that the entry declares: settings, state, ... (engine.declared.Declares).
        """

        def look_up(kind: int, p: Any, *rest: Any) -> Any:
            return getattr(self.entries[kind], name)(p, getattr(p, self.kind), *rest)

        given = ", ".join(["p", *([arguments] if arguments else [])])
        scope: dict[str, Any] = {"__name__": __name__, "look_up": look_up}
        exec(f"def {name}(kind, {given}):\n    return look_up(kind, {given})\n", scope)
        stub = scope[name]
        stub.__doc__ = f"The function `{name}` of the {self.kind} with this number."

        def choose(*types: Any) -> Any:
            self.compiled = True
            used = next((t.used[self.kind] for t in types if hasattr(t, "used")), range(len(self.entries)))
            return self._chain(name, given, tuple(used))

        source = f"def typed(kind, {given}):\n    return choose({given})\n"
        exec(source, {"__name__": __name__, "choose": choose}, scope)
        overload(stub, jit_options={"forceinline": True, **NUMBERS, **PART})(scope["typed"])
        self.hooks[name] = (stub, scope["typed"])
        return stub

    def _chain(self, name: str, given: str, used: tuple[int, ...]) -> Any:
        """The chain of calls over the entries used."""
        scope: dict[str, Any] = {f"entry_{i}": getattr(entry, name) for i, entry in enumerate(self.entries)}
        scope["__name__"] = __name__

        def call(i: int) -> str:
            return f"return entry_{i}({given.replace('p', f'p, p.{self.kind}_{i}', 1)})"

        *others, last = used
        lines = [f"    if kind == {i}:\n        {call(i)}" for i in others]
        exec(f"def {name}(kind, {given}):\n" + "\n".join([*lines, f"    {call(last)}"]) + "\n", scope)
        return scope[name]


REVEALERS = Registry("revealer")
RECOMMENDERS = Registry("recommender")
WORLDS = Registry("world")

# Revealers: the probability of a reveal, and the update of their state after the step.
consult = REVEALERS.hook("consult", "moment, judged")
conclude = REVEALERS.hook("conclude", "moment, judged, nudged, revealed")

# Recommenders: preparation at a reveal, the action from the snapshot, the action from the full context, and the update
# of their state after a blind action.
freeze = RECOMMENDERS.hook("freeze", "")
act_blind = RECOMMENDERS.hook("act_blind", "moment, draws")
act_informed = RECOMMENDERS.hook("act_informed", "moment, draws")
after_blind = RECOMMENDERS.hook("after_blind", "moment, action")

# Worlds: the moment that arrives, the result of an action, the value of a blind action.
arrive = WORLDS.hook("arrive", "draws, step, arrival")
respond = WORLDS.hook("respond", "draws, moment, action, noise")
blind_value = WORLDS.hook("blind_value", "moment, action, outcome")
