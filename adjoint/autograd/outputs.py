"""Recording the outputs of one call of a custom function."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from ..core import fast_path, modes
from ..core.anomaly import Trail
from ..core.nodes import Output, differentiable, extra_of, first_is_newest, output_node, wrap
from ..core.rebasing import rebase
from ..core.tensor import TensorBase, View, depth_outside, note_write, storage_of, tick
from ..core.views import watch_base
from ..core.writable import check_writable, is_leaf_node
from .context import BackwardCFunction, OwnOutput, output_index, saved_of, without_cycle


class Outputs:
    """The results of one call while their history is attached."""

    __slots__ = ("args", "constant", "ctx", "dirty", "places", "several", "values")

    def __init__(self, ctx: BackwardCFunction, args: tuple[Any, ...], values: tuple[Any, ...], several: bool) -> None:
        self.ctx, self.args, self.several = ctx, args, several
        self.values = list(values)
        self.places: dict[int, int] | None = None
        self.dirty: Any = {id(t) for t in ctx.dirty_tensors} if ctx.dirty_tensors else ()
        self.constant: Any = {id(t) for t in ctx.non_differentiable} if ctx.non_differentiable else ()

    def place(self, value: Any) -> int | None:
        """Return which argument a tensor is, if one."""
        if len(self.args) < 16:
            for i, a in enumerate(self.args):
                if a is value:
                    return i
            return None
        if self.places is None:
            last_first = zip(reversed(self.args), range(len(self.args) - 1, -1, -1), strict=True)
            self.places = {id(a): i for a, i in last_first}  # so that of an argument's places the first stays
        return self.places.get(id(value))

    def attach(self, recording: bool) -> None:
        """Connect the outputs to the node and let it store what was saved."""
        ctx, values = self.ctx, self.values
        attributes = ctx.__dict__
        dirty = ctx.dirty_tensors
        returned = {id(v) for v in values} if dirty else set()
        for t in dirty:
            self._check_dirty(t, recording, id(t) in returned)
            note_write(t, ctx.op.title)
        for t in ctx.non_differentiable:
            if not isinstance(t, TensorBase):
                raise RuntimeError(
                    f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__}"
                )
        if not recording:
            self.values = [v if self.place(v) is None else self._unrecorded(v) for v in values]
            return
        ctx.single = not self.several
        ctx.metas = tuple(
            [(v.array.shape, v.array.dtype, type(v.array)) if isinstance(v, TensorBase) else None for v in values]
        )
        ctx.code, ctx.lasti = fast_path.outside(sys._getframe(1))
        ctx.stamp = tick()
        plain = not dirty and not ctx.non_differentiable
        for i, v in enumerate(values):
            if isinstance(v, TensorBase):
                usual = plain and v.node is None and v.lineage is None and v.array.dtype.kind == "f"
                if usual and self.place(v) is None:
                    v.node = output_node(ctx, i) if self.several else ctx
                else:
                    values[i] = self._attach_one(v, i)
        if self.several:
            own = [v.node for v in values if isinstance(v, TensorBase) and type(v.node) is Output]
            first_is_newest([node for node in own if node.edges[0] is ctx])
        if ctx.non_differentiable and not ctx._materialize_non_diff_grads:
            ctx.metas = tuple([None if id(v) in self.constant else m for v, m in zip(values, ctx.metas, strict=True)])
        self._keep(attributes)
        if modes.unusual and modes.local.anomaly_stack:
            extra_of(ctx).traceback = Trail.now()

    def _check_dirty(self, t: Any, recording: bool, returned: bool) -> None:
        ctx = self.ctx
        if not isinstance(t, TensorBase):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument is of type {type(t).__name__} ({ctx.op.title})"
            )
        if not returned:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                "that are modified inplace must all be outputs of the Function."
            )
        if self.place(t) is None:
            warnings.warn(
                "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                "should be passed to ctx.mark_dirty().",
                stacklevel=depth_outside(),
            )
        if recording and t.lineage is None and is_leaf_node(t.node):
            raise RuntimeError(
                f"a leaf Variable that requires grad has been used in an in-place operation. {ctx.op.title} marked it "
                "as dirty: give the function a clone()."
            )
        check_writable(t, recording)

    def _unrecorded(self, v: Any) -> Any:
        """Return an input that `forward` gave back, where nothing is recorded: as another tensor."""
        if not isinstance(v, TensorBase):
            return v
        if v.node is not None and not modes.is_grad_enabled():
            return v.detach()  # type: ignore[attr-defined]
        return v if id(v) in self.dirty else self._returned(v, None, 0)

    def _kind(self) -> Any:
        count = sum(meta is not None for meta in self.ctx.metas or ()) - len(self.constant)
        return View.MULTIPLE if count > 1 else View.CUSTOM

    def _returned(self, v: Any, node: Any, index: int) -> Any:
        """Return an input that `forward` gave back as a view of it, with the history of this call."""
        out = wrap(v.array, node, storage_of(v))
        out.lineage = View(v if v.lineage is None else v.lineage.base, None, self._kind())
        if node is not None:
            out.lineage.maker = f"Output {index} of {self.ctx.op.title.removesuffix('Backward')}"
        watch_base(out)
        return out

    def _attach_one(self, v: Any, i: int) -> Any:
        ctx = self.ctx
        position = self.place(v)
        if id(v) in self.constant or not differentiable(v.array.dtype):
            return v if position is None else v.detach()
        node: Any = ctx if ctx.single else output_node(ctx, i)
        if id(v) in self.dirty and position is not None:
            if v.lineage is not None and not ctx.single:
                raise RuntimeError(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                    "return more than one Tensor. This is not supported by the current autograd engine: clone the input"
                )
            rebase(v, ctx, ctx.positions.index(position) if v.lineage is not None else 0, node)
            return v
        if position is not None:
            return self._returned(v, node, i)
        if v.lineage is not None and any(v.lineage.base is a or self._shares_base(v, a) for a in self.args):
            v.lineage.kind = self._kind()
            v.lineage.maker = f"Output {i} of {ctx.op.title.removesuffix('Backward')}"
        v.node = node
        return v

    def _shares_base(self, v: Any, a: Any) -> bool:
        return isinstance(a, TensorBase) and a.lineage is not None and a.lineage.base is v.lineage.base

    def _keep(self, attributes: dict[str, Any]) -> None:
        """Store the saved tensors without holding outputs, and take outputs off ctx."""
        ctx = self.ctx
        if ctx.to_save:
            ctx.saved = saved_of(ctx, ctx.to_save)
            ctx.to_save = None
            if modes.unusual:
                self._pack_saved()
        for name, value in attributes.items():
            if isinstance(value, TensorBase) and output_index(ctx, value) is not None:
                attributes[name] = without_cycle(ctx, value)
                if not isinstance(type(ctx).__dict__.get(name), OwnOutput):
                    setattr(type(ctx), name, OwnOutput(name))
        ctx.dirty_tensors = ctx.non_differentiable = ()

    def _pack_saved(self) -> None:
        ctx = self.ctx
        if modes.local.pack_hooks:
            for saved in ctx._raw_saved_tensors:
                if saved._value is not None:
                    saved.register_hooks(*modes.local.pack_hooks[-1])
