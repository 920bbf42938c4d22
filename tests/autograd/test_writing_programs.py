"""Writing in place, views and versions, program by program, against torch."""

from __future__ import annotations

import pytest

from tests.oracle import needs_torch, same

from .programs import Program, Programs, about, leaf, refusal

program = Programs()

# --- In place, views, versions ------------------------------------------------------------------------------


@program
def leaf_in_place(T):
    leaf(T).add_(1)


@program
def leaf_in_place_without_grad(T):
    x = leaf(T)
    with T.no_grad():
        x.add_(1)
    return x, x._version, x.is_leaf


@program
def view_of_leaf_in_place(T):
    leaf(T)[0].add_(1)


@program
def in_place_history(T):
    x = leaf(T)
    y = x * 1
    y.mul_(3)
    y.add_(x)
    y.sum().backward()
    return x.grad, y._version, y.grad_fn.name()


@program
def in_place_saved_self(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    return x.grad, w.grad


@program
def overwritten_input(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    z = y * w
    y.add_(1)
    z.sum().backward()


@program
def overwritten_output(T):
    x = leaf(T)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@program
def overwritten_but_not_needed(T):
    x = leaf(T)
    y = x * 2
    z = y + 1
    y.add_(1)
    z.sum().backward()
    return x.grad


@program
def overwritten_through_detach(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    z = y * w
    y.detach().add_(1)
    z.sum().backward()


@program
def data_write_is_not_counted(T):
    x = leaf(T)
    y = x * 1
    before = y._version
    y.data.add_(1)
    return before, y._version, y


@program
def versions(T):
    x = T.ones(3)
    v = x[0]
    seen = [x._version, v._version]
    v.add_(1)
    seen += [x._version, v._version]
    x.zero_()
    seen += [x._version, v._version, x.detach()._version]
    return seen


@program
def view_facts(T):
    x = T.ones(2, 3)
    v = x[0]
    w = v[1:]
    return v._is_view(), w._base is x, v._base is x, x._is_view(), x._base is None, x.detach()._is_view()


@program
def rebase_through_view(T):
    x = leaf(T)
    y = x * 1
    v = y[0]
    v.mul_(5)
    y.sum().backward()
    return x.grad, y.grad_fn.name()


@program
def rebase_through_view_of_view(T):
    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    y = x * 1
    v = y[1]
    w = v[1:]
    w.mul_(x[0, 1:])
    (y * y).sum().backward()
    return x.grad, v, w


@program
def sibling_views_are_refreshed(T):
    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    y = x * 1
    a, b = y[0], y[0, 1:]
    a.mul_(3)
    b.sum().backward()
    return x.grad, b.requires_grad


@program
def base_write_refreshes_views(T):
    x = leaf(T)
    y = x * 1
    v = y[1:]
    y.mul_(4)
    v.sum().backward()
    return x.grad


@program
def view_of_constant_starts_to_require_grad(T):
    y = T.zeros(3, dtype=T.float64)
    a, b = y[0], y[1]
    x = T.tensor(2.0, dtype=T.float64, requires_grad=True)
    a.copy_(x * x)
    flags = [y.requires_grad, a.requires_grad, b.requires_grad]
    y.sum().backward()
    return flags, x.grad


@program
def setitem(T):
    x = leaf(T)
    y = T.zeros(2, 3, dtype=T.float64)
    y[0] = x
    y[1, 1:] = x[1:] * 2
    y.sum().backward()
    return y, x.grad


@program
def setitem_on_history(T):
    x, z = leaf(T), leaf(T)
    y = x * 2
    y[1] = z[0] * 3
    (y * y).sum().backward()
    return x.grad, z.grad


@program
def loop_of_writes(T):
    x = leaf(T)
    out = T.zeros(4, 3, dtype=T.float64)
    h = x
    for i in range(4):
        h = (h * x).tanh()
        out[i] = h
    (out * out).sum().backward()
    return x.grad


@program
def multi_output_view_in_place(T):
    y = leaf(T) * 1
    a, b, c = y.unbind()
    a.mul_(2)


@program
def multi_output_view_after_base_write(T):
    y = leaf(T) * 1
    a, b, c = y.unbind()
    y.mul_(2)
    return a.grad_fn


@program
def view_made_in_no_grad(T):
    y = leaf(T) * 1
    with T.no_grad():
        v = y[0]
    v.mul_(2)


@program
def expanded_write(T):
    T.ones(1).expand(3).add_(1)


@program
def overlapping_write(T):
    x = T.arange(5.0)
    x[1:].add_(x[:-1])


@program
def in_place_growing(T):
    T.ones(3).add_(T.ones(2, 3))


@program
def in_place_dtype(T):
    T.ones(3, dtype=T.int64).add_(0.5)


@program
def detach_in_place_of_view(T):
    (leaf(T) * 1)[0].detach_()


@program
def requires_grad_off_for_non_leaf(T):
    (leaf(T) * 1).requires_grad_(False)


@program
def retain_grad_follows_in_place(T):
    x = leaf(T)
    y = x * 1
    y.retain_grad()
    y.mul_(2)
    (y * 3).sum().backward()
    return y.grad


@program
def double_backward_through_in_place(T):
    x = leaf(T)
    y = x * x
    y[0].mul_(x[1])
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    return g, T.autograd.grad((g * g).sum(), x)


@program
def multi_outputs(T):
    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    a, b = x.split([1, 2], dim=1)
    values, indices = (x * 2).max(dim=1)
    ((a * 3).sum() + values.sum()).backward()
    return x.grad, a.grad_fn.name(), b.output_nr, indices.requires_grad


@program
def multi_output_hooks(T):
    x, seen = leaf(T), []
    a, b, c = (x * 2).unbind()
    b.register_hook(lambda g: seen.append(g.clone()) or g * 10)
    (a + b * 2).backward()
    return x.grad, seen


@program
def saved_attributes(T):
    x, w = leaf(T), leaf(T)
    y = x * w
    z = y.sum()
    e = x.exp()
    return y.grad_fn._saved_self, y.grad_fn._saved_other, e.grad_fn._saved_result, z.grad_fn.name()


@program
def saved_attributes_after_backward(T):
    x = leaf(T)
    y = x.exp()
    y.sum().backward()
    return y.grad_fn._saved_result


@program
def metadata(T):
    y = leaf(T) * 2
    y.grad_fn.metadata["k"] = 1
    return y.grad_fn.metadata


# --- Views without history, grad_dtype, answers of hooks ------------------------------------------------


@program
def a_view_made_unrecorded(T):
    y = leaf(T) * 1
    with T.no_grad():
        v = y[1:]
    z = v * 2
    seen = about(v), about(z), [f is None for f, _ in z.grad_fn.next_functions]
    return seen, refusal(lambda: v.mul_(2)), refusal(lambda: v.numpy()), refusal(lambda: z.sum().backward())


@program
def a_base_that_requires_grad_after_its_view(T):
    y = T.zeros(4, dtype=T.float64)
    v = y[1:]
    y.requires_grad_()
    seen = [about(v), refusal(lambda: v.mul_(2))]
    with T.no_grad():
        y.add_(1)
    v.sum().backward()
    return seen, about(v), y.grad


@program
def one_of_several_views_after_an_unrecorded_write(T):
    y = leaf(T) * 1
    v = y.unbind(0)[1]
    with T.no_grad():
        y.mul_(2)
    return refusal(lambda: v.grad_fn)


@program
def a_retained_gradient_moves_with_its_tensor(T):
    x = leaf(T)
    y = x * 1
    v = y[1:]
    y.retain_grad()
    v.retain_grad()
    v.mul_(2)
    (y * y).sum().backward()
    return y.retains_grad, v.retains_grad, y.grad, x.grad


@program
def gradients_of_another_dtype(T):
    x = leaf(T)
    x.grad_dtype = T.float32
    seen = []
    x.register_hook(lambda g: seen.append(str(g.dtype)))
    for _ in range(2):
        (x * x).sum().backward()
    seen += [refusal(lambda: setattr(x, "grad", T.ones(3, dtype=T.float64)))]
    return seen[:2], seen[2] is None, x.grad, T.autograd.grad((x * x).sum(), x)


@program
def gradients_of_any_dtype(T):
    x = leaf(T)
    x.grad_dtype = None
    x.grad = T.ones(3, dtype=T.float32)
    (x * x).sum().backward()
    return x.grad_dtype is None, x.grad


@program
def passes_that_keep_only_shapes_can_be_repeated(T):
    x = leaf(T)
    y = x.reshape(1, 3).expand(2, 3).mean() + x.flip(0).sum()
    for _ in range(3):
        y.backward()
    return x.grad


@program
def an_exception_in_a_hook_is_the_programs_own(T):
    x = leaf(T)
    x.register_hook(lambda g: {}["missing"])
    (x * x).sum().backward()


@program
def answers_of_hooks(T):
    found = []
    for answer in ("no tensor", 3, lambda g: g[:1], lambda g: g.float(), lambda g: (g,), lambda g: (g[:1],)):
        given = answer if callable(answer) else lambda g, answer=answer: answer
        x = leaf(T)
        x.register_hook(given)
        found.append(refusal(lambda x=x: (x * 2).sum().backward()))
        y = leaf(T).exp()
        y.grad_fn.register_prehook(lambda gs, given=given: given(gs[0]))
        found.append(refusal(lambda y=y: y.sum().backward()))
        y = leaf(T).exp()
        y.grad_fn.register_hook(lambda gs, _, given=given: given(gs[0]))
        found.append(refusal(lambda y=y: y.sum().backward()))
    return [f and f[0] for f in found]


@program
def inputs_that_cannot_have_a_gradient_are_no_next_functions(T):
    x = leaf(T)
    chosen = [x.index_select(0, T.tensor([1])), T.where(x > 1, x, x * 2), x.gather(0, T.tensor([0, 0])), x * 2]
    return [[f is not None and f.name() for f, _ in y.grad_fn.next_functions] for y in chosen]


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Program) -> None:
    same(function)
