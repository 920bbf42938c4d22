"""A budget for what the graph saves: values over it are dropped, and computed again when the backward pass needs them.

Inside `memory_budget` an observer sees every op, and so knows how each value was made: by which op, from which
values. What a node saves is handed over here by the saved-tensor hooks. When the saved bytes exceed the budget,
the values that are cheapest to recompute, in seconds per byte, are dropped. The cost is the time of the op, and that of
its inputs if they were dropped too. A backward pass that needs a dropped value replays its ops on bare arrays: the same
kernels on the same inputs, so the gradients are the same bit for bit. Recomputed values are saved for the nodes that
need them next, as long as the budget allows (dynamic tensor rematerialisation; Kirisame et al., 2021).

Values that cannot be recomputed stay saved: leaves, random numbers, and values written in place. Before a write to
memory that other values will be recomputed from, those values get a copy. A write that the observer does not see is
detected by the version clock and refused. Without a budget there is no cost: the fast recorders never come here.
"""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import modes
from ..core.general import unobserved
from ..core.nodes import wrap
from ..core.observation import Observer
from ..core.tasks import running
from ..core.tensor import TensorBase, clock, owner_of, tick, written_ledger
from ..errors import InPlaceError, place

__all__ = ["memory_budget"]

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_ROOM = 0.9  # a trim goes this far below the budget, so that not every op needs one


class _Recipe:
    """How values were made: an op, the values it took, its parameters, and what came out."""

    __slots__ = ("inputs", "op", "outs", "params", "seconds")

    def __init__(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], seconds: float) -> None:
        self.op, self.inputs, self.params, self.seconds = op, inputs, params, seconds
        self.outs: list[weakref.ref[_Value]] = []


class _Value:
    """One array of the program: `array` while it must stay, `ref` while the program refers to it, else its recipe."""

    __slots__ = ("__weakref__", "array", "born", "bytes", "holds", "number", "recipe", "ref", "stamp", "view")

    def __init__(self, array: Any) -> None:
        self.array: Any = array
        self.ref: Any = None
        self.recipe: _Recipe | None = None
        self.number = 0  # which output of the recipe
        self.view = False  # whether it is a view of the recipe's first input
        self.holds = 0  # how many saved values of live nodes use its memory
        self.bytes = int(array.nbytes)
        self.born = self.stamp = tick()  # when it was first made, and when the present array was

    def written(self, array: Any) -> Any:
        """Return the ledger of a write to the array since it was made, if there was one."""
        if self.stamp >= clock.latest:
            return None
        ledger = written_ledger(array)
        return ledger if ledger is not None and ledger.time > self.stamp else None

    def present(self) -> Any:
        """Return the array if it is there and still what it was, else None."""
        array = self.array
        if array is None and self.ref is not None:
            array = self.ref()
        ledger = None if array is None else self.written(array)
        if ledger is None:
            return array
        if self.recipe is not None:
            return None
        raise InPlaceError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"{ledger.operation or 'an in-place op'} at {place(ledger.code, ledger.lasti)} overwrote a value from "
            "which memory_budget was to compute dropped values again. Write to a copy, or write inside the context."
        )


class _Hold:
    """Placeholder in the graph for a saved value; when the node frees it, so does the budget."""

    __slots__ = ("budget", "root", "value")

    def __init__(self, budget: memory_budget, value: _Value, root: _Value) -> None:
        self.budget, self.value, self.root = budget, value, root
        root.holds += 1

    def __del__(self) -> None:
        self.root.holds -= 1
        if not self.root.holds:
            self.budget._release(self.root)


class memory_budget(Observer):
    """Limit the bytes that ops save for backward; drop and recompute values beyond the limit.

    The gradients are the same, bit for bit; the price is time, and `report` says how much. Leaves (parameters,
    inputs) do not count, and what the program itself still refers to stays alive in any case.

    Parameters
    ----------
    limit
        Bytes, as a number or a text: ``"512MiB"``, ``"1.5 GB"``, ``100_000``.

    Attributes
    ----------
    kept, peak
        Bytes of saved values now, and at most so far.
    dropped, recomputed
        How many values were let go, and how many ops were run again.
    seconds
        Time spent running them again.

    Examples
    --------
    >>> x = adjoint.linspace(0, 1, 1000, requires_grad=True)
    >>> with adjoint.memory_budget("10 kB") as budget:
    ...     y = x.sin().exp().tanh().sigmoid().sum()
    >>> y.backward()
    >>> budget.peak <= 10_000, budget.dropped > 0
    (True, True)
    """

    def __init__(self, limit: int | float | str) -> None:
        self.limit = _bytes_in(limit)
        self.kept = self.peak = 0
        self.dropped = self.recomputed = 0
        self.seconds = 0.0
        self._made: dict[int, _Value] = {}  # values with a recipe, by the number of their array
        self._bases: weakref.WeakValueDictionary[int, _Value] = weakref.WeakValueDictionary()
        self._held: set[_Value] = set()
        self._depth = 0
        self._fusing = False

    def __enter__(self) -> memory_budget:
        """Start to watch; a context cannot be entered twice at a time."""
        if self._depth:
            raise RuntimeError("this memory_budget is on already; make another one")
        self._depth = 1
        self._fusing = modes.local.fusing
        modes.local.fusing = modes.fusing()
        super().__enter__()
        modes.local.pack_hooks = (*modes.local.pack_hooks, (self._pack, self._unpack))
        return self

    def __exit__(self, *error: object) -> None:
        modes.local.pack_hooks = modes.local.pack_hooks[:-1]
        super().__exit__(*error)
        modes.local.fusing = self._fusing
        self._made.clear()  # no op needs these any more: each saved value has its own recipe
        self._depth = 0

    def report(self) -> str:
        """Return a line with bytes, dropped values and time."""
        return (
            f"memory_budget: {self.peak / 2**20:.2f} of {self.limit / 2**20:.2f} MiB at most, {self.dropped} values "
            f"dropped, {self.recomputed} ops run again in {self.seconds * 1e3:.1f} ms"
        )

    def __repr__(self) -> str:
        return f"<{self.report()}>"

    # --- What the program does ---

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Run a primitive, and remember how its results were made."""
        if not any(isinstance(v, TensorBase) for v in inputs):
            return self.proceed(op, inputs, params, run)
        if modes.local.autocast is not None:
            inputs = modes.local.autocast(op, inputs)  # so that the recipe has what the kernel saw
        start = time.perf_counter()
        out = self.proceed(op, inputs, params, run)
        seconds = time.perf_counter() - start
        if modes.is_grad_enabled():
            self._note(op, inputs, params, out, seconds)
        return out

    def _note(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], out: Any, seconds: float) -> None:
        outs = out if isinstance(out, tuple) else (out,)
        if not all(isinstance(o, TensorBase) and type(o.array) is np.ndarray for o in outs):
            return
        if not all(type(v.array) is np.ndarray for v in inputs if isinstance(v, TensorBase)):
            return
        given = tuple(self._value_of(v.array) if isinstance(v, TensorBase) else v for v in inputs)
        recipe = _Recipe(op, given, params, seconds)
        for number, o in enumerate(outs):
            if o.array.size and not any(isinstance(v, TensorBase) and v.array is o.array for v in inputs):
                self._attach(o.array, recipe, number, inputs)

    def _attach(self, array: Any, recipe: _Recipe, number: int, inputs: tuple[Any, ...]) -> None:
        """Make an array one that can be computed again."""
        value = self._bases.pop(id(array), None)
        if value is None:
            value = _Value(array)
        first = recipe.inputs[0]
        owner = owner_of(array)
        if isinstance(first, _Value) and owner is not array and owner is owner_of(inputs[0].array):
            if value.holds:  # saved before it was known to be a view: it stays as it is
                self._bases[id(array)] = value
                return
            value.view = True
        value.recipe, value.number = recipe, number
        recipe.outs.append(weakref.ref(value))
        self._register(value, array)
        if value.holds:
            self._hold(value)
        else:
            value.array = None

    def _register(self, value: _Value, array: Any) -> None:
        key, made, known = id(array), self._made, weakref.ref(value)

        def gone(_: Any) -> None:
            if made.get(key) is known():
                made.pop(key, None)

        value.ref = weakref.ref(array, gone)
        made[key] = value

    def _value_of(self, array: Any) -> _Value:
        """Return the record of an array; an array that no op made gets one without a recipe."""
        key = id(array)
        value = self._made.get(key)
        if value is not None and value.ref() is array and value.written(array) is None:
            return value
        base = self._bases.get(key)
        if base is None or base.array is not array or base.written(array) is not None:
            base = self._bases[key] = _Value(array)
        return base

    def backward(self, roots: Any, run: Callable[[], Any]) -> Any:
        """Run a backward pass, then drop the recipes that no node can need any more."""
        result = super().backward(roots, run)
        needed: set[_Value] = set()
        stack = [v for v in self._made.values() if v.holds] + [v for v in self._held if v.holds]
        while stack:
            value = stack.pop()
            if value not in needed:
                needed.add(value)
                if value.recipe is not None:
                    stack += [v for v in value.recipe.inputs if isinstance(v, _Value)]
        for key, value in list(self._made.items()):
            if value not in needed:
                self._made.pop(key, None)  # a later op takes its array as it is
        return result

    def compute_into(self, op: Any, x: TensorBase, inputs: Any, params: Any, run: Callable[[], None]) -> None:
        """Run a write, after values that will be recomputed from the old memory have got a copy."""
        owner = owner_of(x.array)
        for value in [*self._made.values(), *list(self._bases.values())]:
            array = value.array if value.array is not None else value.ref and value.ref()
            if array is None or owner_of(array) is not owner:
                continue
            if self._made.get(id(array)) is value:
                del self._made[id(array)]
            self._bases.pop(id(array), None)
            if value.recipe is None:
                value.array, value.stamp = array.copy(), tick()
            else:
                self._drop(value)
                value.ref = None
        super().compute_into(op, x, inputs, params, run)

    # --- Saved values of nodes ---

    def _pack(self, tensor: Any) -> Any:
        if type(tensor.array) is not np.ndarray:
            return tensor
        value = self._value_of(tensor.array)
        root = _root(value)
        hold = _Hold(self, value, root)
        if root.recipe is not None:
            self._keep(root)
        return hold

    def _unpack(self, hold: Any) -> Any:
        return wrap(self._fetch(hold.value)) if type(hold) is _Hold else hold

    def _keep(self, root: _Value) -> None:
        if root.recipe is not None and root not in self._held:
            array = root.present()
            if array is not None:
                root.array = array
                self._hold(root)

    def _hold(self, value: _Value) -> None:
        self._held.add(value)
        self.kept += value.bytes
        if self.kept > self.limit:
            self._trim(value)
        self.peak = max(self.peak, self.kept)

    def _drop(self, value: _Value) -> None:
        if value in self._held:
            self._held.discard(value)
            self.kept -= value.bytes
            value.array = None

    def _release(self, value: _Value) -> None:
        """Forget a value that no node saves any more."""
        if value.recipe is not None:
            self._drop(value)

    def _trim(self, newest: _Value) -> None:
        """Drop the values with the lowest recomputation cost per byte; not the newest one."""
        known: dict[_Value, float] = {}
        back = bool(running.tasks)

        def worth(v: _Value) -> float:
            price = _price(v, known) / v.bytes
            # A backward pass needs the newest values first, so values far from its position are dropped first.
            return price / (1 + abs(newest.born - v.born)) if back else price

        for victim in sorted((v for v in self._held if v is not newest), key=worth):
            if self.kept <= self.limit * _ROOM:
                return
            self._drop(victim)
            self.dropped += 1
        if self.kept > self.limit and not back:  # nothing else is left; the program still has this one
            self._drop(newest)
            self.dropped += 1

    # --- Computing again ---

    def _fetch(self, value: _Value) -> Any:
        array = value.present()
        return array if array is not None else self._recompute(value)

    def _recompute(self, wanted: _Value) -> Any:
        """Return a dropped value, recomputed from the nearest values that are present."""
        start = time.perf_counter()
        recipes, uses, found = _plan(wanted)
        with _Quiet():
            for recipe in recipes:
                self._replay(recipe, found)
                for v in recipe.inputs:  # what no later recipe takes may go
                    if isinstance(v, _Value):
                        uses[v] -= 1
                        if not uses[v]:
                            found.pop(v, None)
        self.seconds += time.perf_counter() - start
        return found[wanted]

    def _replay(self, recipe: _Recipe, found: dict[_Value, Any]) -> None:
        self.recomputed += 1
        inputs = tuple(wrap(found[v]) if isinstance(v, _Value) else v for v in recipe.inputs)
        out = unobserved(recipe.op, inputs, recipe.params)
        outs = out if isinstance(out, tuple) else (out,)
        for ref in recipe.outs:
            value = ref()
            if value is not None:
                array = found[value] = outs[value.number].array
                value.stamp = tick()
                if value.holds and value.array is None and not value.view:  # another node will need it
                    value.array = array
                    self._register(value, array)
                    self._hold(value)


def _plan(wanted: _Value) -> tuple[list[_Recipe], dict[_Value, int], dict[_Value, Any]]:
    """Return the recipes of a value, in order, how often they use each value, and the values that are present."""
    recipes: list[_Recipe] = []
    uses: dict[_Value, int] = {wanted: 1}
    there: dict[_Value, Any] = {}
    seen: set[int] = set()
    stack: list[tuple[_Value, bool]] = [(wanted, False)]
    while stack:
        value, ready = stack.pop()
        recipe = value.recipe
        if ready:
            assert recipe is not None
            recipes.append(recipe)
            for v in recipe.inputs:
                if isinstance(v, _Value):
                    uses[v] = uses.get(v, 0) + 1
            continue
        if value not in there:
            there[value] = value.present()
        if there[value] is not None or id(recipe) in seen:
            continue
        assert recipe is not None  # a value without one is always there
        seen.add(id(recipe))
        stack.append((value, True))
        stack += [(v, False) for v in recipe.inputs if isinstance(v, _Value)]
    return recipes, uses, {v: array for v, array in there.items() if array is not None}


class _Quiet:
    """Runs ops unrecorded, unobserved, in the dtypes they are given."""

    def __enter__(self) -> None:
        local = modes.local
        self.before = local.observer, local.pack_hooks, local.autocast, local.grad
        local.observer, local.pack_hooks, local.autocast = None, (), None
        modes.set_grad(False)

    def __exit__(self, *error: object) -> None:
        local = modes.local
        local.observer, local.pack_hooks, local.autocast = self.before[:3]
        modes.set_grad(self.before[3])


def _root(value: _Value) -> _Value:
    """Return the base of a view."""
    while value.view:
        assert value.recipe is not None
        value = value.recipe.inputs[0]
    return value


def _price(value: _Value, known: dict[_Value, float]) -> float:
    """Return the seconds that recomputing a value takes, its missing inputs included."""
    assert value.recipe is not None
    return value.recipe.seconds + sum(_missing(v, known) for v in value.recipe.inputs if isinstance(v, _Value))


def _missing(value: _Value, known: dict[_Value, float]) -> float:
    """Return the seconds that recomputing an input takes: none if it is saved."""
    stack = [value]
    while stack:
        v = stack[-1]
        if v in known:
            stack.pop()
        elif v.recipe is None or v.array is not None:
            known[v] = 0.0
        else:
            inputs = [i for i in v.recipe.inputs if isinstance(i, _Value)]
            unknown = [i for i in inputs if i not in known]
            if unknown:
                stack += unknown
            else:
                known[v] = v.recipe.seconds + sum(known[i] for i in inputs)
    return known[value]


def _bytes_in(limit: int | float | str) -> int:
    """Return a size in bytes."""
    if isinstance(limit, int | float):
        count = int(limit)
    else:
        match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", limit.lower())
        if match is None:
            raise ValueError(f"memory_budget: {limit!r} is no size; write '512MiB', '1.5 GB' or a number of bytes")
        number, unit, binary = match.groups()
        power = " kmgt".index(unit) if unit else 0
        count = int(float(number) * (1024**power if binary else _UNITS[unit]))
    if count < 0:
        raise ValueError(f"memory_budget: a budget is not negative, got {limit!r}")
    return count
