"""Optimizers, schedules and averages, program by program, against torch."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from importlib import import_module
from typing import Any

import pytest

from tests.autograd.programs import Program, Programs, leaf, refusal
from tests.oracle import needs_torch, same

program = Programs()

NAMES = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD",
         "Adafactor"]  # fmt: skip
# Options and numbers that checkpoints of long ago do not have, or have as Python numbers.
LATER = ("foreach", "maximize", "capturable", "differentiable", "fused", "amsgrad", "nesterov",
         "decoupled_weight_decay")  # fmt: skip


def trained(T: Any, o: Any, ps: list[Any], steps: int = 3) -> list[Any]:
    for _ in range(steps):
        o.zero_grad()
        sum(((p - 0.3) ** 2).sum() for p in ps).backward()
        o.step()
    return [p.detach().clone() for p in ps]


def options(o: Any) -> dict[str, Any]:
    return {k: v for k, v in o.param_groups[0].items() if k != "params"}


def older(state_dict: Any, number: Any) -> Any:
    """Return a state dict as an older release would have written it."""
    old = copy.deepcopy(state_dict)
    for group in old["param_groups"]:
        for name in LATER:
            group.pop(name, None)
    for state in old["state"].values():
        for name in {"step", "mu_product", "eta", "mu"} & state.keys():
            state[name] = number(state[name])
    return old


# --- Checkpoints ---------------------------------------------------------------------------------------


def from_an_older_checkpoint(T: Any, name: str) -> Any:
    p = leaf(T)
    o = getattr(T.optim, name)([p])
    trained(T, o, [p])
    results = []
    for number in (float, T.clone):
        q = p.detach().clone().requires_grad_()
        other = getattr(T.optim, name)([q])
        other.load_state_dict(older(o.state_dict(), number))
        results += [trained(T, other, [q]), options(other), [list(s) for s in other.state.values()]]
    return results


def from_an_older_pickle(T: Any, name: str) -> Any:
    p = leaf(T)
    o = getattr(T.optim, name)([p])
    trained(T, o, [p])
    for state in o.state.values():
        if "step" in state:
            state["step"] = float(state["step"])
    group = {k: v for k, v in o.param_groups[0].items() if k not in LATER}
    o.__setstate__({"state": o.state, "param_groups": [group]})
    return trained(T, o, [p]), [(k, str(v.dtype)) for s in o.state.values() for k, v in s.items() if v is not None]


@program
def names_in_a_checkpoint(T):
    def adam(*named):
        ps = [(name, leaf(T)) for name in named]
        o = T.optim.Adam(ps)
        trained(T, o, [p for _, p in ps], 1)
        return o

    unnamed, o = T.optim.Adam([leaf(T)]), adam("a")
    unnamed.load_state_dict(o.state_dict())
    other = adam("b")
    other.load_state_dict(o.state_dict())
    o.load_state_dict(T.optim.Adam([leaf(T)]).state_dict())
    return options(unnamed), options(other), options(o)


# --- Steps ---------------------------------------------------------------------------------------------


@program
def hooks_of_a_step_get_the_optimizer_first(T):
    o, log = T.optim.SGD([leaf(T)], lr=0.1), []

    def before(optimizer, args, kwargs):
        log.append((args[0] is optimizer, len(args), sorted(kwargs)))
        return args, {"closure": lambda: 5.0}

    o.register_step_pre_hook(before)
    o.register_step_post_hook(lambda optimizer, args, kwargs: log.append((len(args), sorted(kwargs))))
    return o.step(), o.step(closure=lambda: 3.0), log


@program
def a_step_given_to_the_class_later_has_hooks(T):
    class Mine(T.optim.SGD):
        pass

    Mine([leaf(T)], lr=0.1)
    log = []
    Mine.step = lambda self, closure=None: log.append("step")
    o = Mine([leaf(T)], lr=0.1)
    o.register_step_pre_hook(lambda *args: log.append("hook"))
    o.step()
    return log


@program
def names_in_a_profile(T):
    p = leaf(T)
    o = T.optim.Adam([p])
    p.sum().backward()
    with T.profiler.profile() as profile:
        o.step()
        o.zero_grad()
    return sorted({event.name for event in profile.events() if "Optimizer" in event.name})


@program
def words_about_groups(T):
    o = T.optim.SGD([{"params": [leaf(T)], "lr": 0.5}, {"params": [leaf(T)]}], lr=0.1)
    return repr(o)


@program
def refused_options(T):
    def step(**kwargs):
        p = leaf(T).clone() if kwargs.get("differentiable") else leaf(T)
        o = T.optim.Adam([p], **kwargs)
        p.grad = T.ones_like(p)
        o.step()

    def whole(p):
        p.grad = T.ones_like(p)
        T.optim.Adam([p], fused=True).step()

    tensor = T.tensor(0.9)
    return [
        refusal(lambda: step(capturable=True)),
        refusal(lambda: step(foreach=True, differentiable=True))[0],
        refusal(lambda: whole(T.ones(2, dtype=T.complex64, requires_grad=True)))[0],
        refusal(lambda: step(betas=(0, 0.9))),
        refusal(lambda: step(betas=(tensor, 0.9))),
        refusal(lambda: T.optim.LBFGS([leaf(T)]).step()) is not None,
    ]


@program
def mu_product_in_the_graph(T):
    p0, g, mu = leaf(T), leaf(T, 0.3, -0.2, 1.0), T.tensor(0.8, dtype=T.float64, requires_grad=True)
    p = p0.clone()
    p.grad = g
    o = T.optim.NAdam([p], lr=0.1, differentiable=True)
    o.state[p].update(
        step=T.tensor(3.0, dtype=T.float64), mu_product=mu.clone(), exp_avg=g.clone(), exp_avg_sq=g.clone() ** 2
    )
    o.step()
    return T.autograd.grad((p**2).sum(), [p0, g, mu]), list(o.state[p])


@program
def a_penalty_that_is_learned(T):
    results = []
    for name in ("SGD", "Adam", "AdamW"):
        p0, decay = leaf(T), T.tensor(0.1, dtype=T.float64, requires_grad=True)
        p = p0.clone()
        o = getattr(T.optim, name)([p], lr=0.1, weight_decay=decay, differentiable=True)
        for _ in range(2):
            (p.grad,) = T.autograd.grad(((p - 1) ** 2).sum(), p, create_graph=True)
            o.step()
        results += [round(float(v), 3) for grad in T.autograd.grad((p**2).sum(), [decay, p0]) for v in grad.reshape(-1)]
    return results


@program
def names_that_packages_import(T):
    optimizer = import_module(f"{T.__name__}.optim.optimizer")

    class Mine(T.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"differentiable": False})

        @optimizer._use_grad_for_differentiable
        def step(self, closure=None):
            self._cuda_graph_capture_health_check()
            return T.is_grad_enabled()

    several = import_module(f"{T.__name__}.optim._multi_tensor")
    return (
        Mine([leaf(T)]).step(), optimizer._get_value(T.tensor(2.0)), optimizer._to_scalar(T.ones(1)),
        str(optimizer._get_scalar_dtype()), optimizer._default_to_fused_or_foreach([leaf(T)], False),
        several.Adam([leaf(T)]).param_groups[0]["foreach"],
    )  # fmt: skip


@program
def sparse_adam_as_a_function(T):
    p, mean, square = T.ones(3), T.zeros(3), T.zeros(3)
    grad = T.sparse_coo_tensor(T.tensor([[0, 2]]), T.tensor([1.0, -2.0]), (3,))
    import_module(f"{T.__name__}.optim._functional").sparse_adam(
        [p], [grad], [mean], [square], [1], eps=1e-8, beta1=0.9, beta2=0.99, lr=0.1, maximize=False
    )
    return p, mean, square


# --- LBFGS ---------------------------------------------------------------------------------------------


def lbfgs(T, f, start, steps=3, dtype="float32", **kwargs):
    x = T.tensor(start, dtype=getattr(T, dtype), requires_grad=True)
    o, calls = T.optim.LBFGS([x], line_search_fn="strong_wolfe", **kwargs), []

    def closure():
        o.zero_grad()
        loss = f(x)
        loss.backward()
        calls.append(float(loss.detach()))
        return loss

    for _ in range(steps):
        o.step(closure)
    return x.detach(), len(calls), o.state[x]["func_evals"], o.state[x]["n_iter"]


@program
def a_search_on_a_flat_loss_rounds_as_the_loss_does(T):
    return lbfgs(T, lambda x: (1e-5 * x**4 + 1).sum(), [1.0], steps=200)


@program
def a_search_along_a_line(T):
    return lbfgs(T, lambda x: x.sum(), [1.0, 2.0], steps=1, max_eval=2)


@program
def a_search_without_tolerance(T):
    return lbfgs(T, lambda x: ((x - 1) ** 2).sum(), [3.0, -2.0], tolerance_change=0, tolerance_grad=0)


@program
def a_search_with_few_evaluations(T):
    return [
        lbfgs(T, lambda x: (x**4 + (3 * x).cos()).sum(), [3.0, -2.0], dtype="float64", max_eval=n) for n in (1, 2, 3, 5)
    ]


@program
def no_step_at_all(T):
    return lbfgs(T, lambda x: (x**2).sum(), [3.0, -2.0], max_iter=0)


@program
def a_loss_that_is_not_a_number(T):
    return lbfgs(T, lambda x: (x - 3).sqrt().sum() + x.sum(), [3.5, 4.0], steps=2)


@program
def a_distance_is_a_tensor_where_it_was_computed(T):
    x = leaf(T)
    o = T.optim.LBFGS([x], lr=T.tensor(0.5), max_iter=2)

    def closure():
        o.zero_grad()
        loss = ((x - 1) ** 4).sum()
        loss.backward()
        return loss

    o.step(closure)
    state = o.state[x]
    again = T.optim.LBFGS([x])
    again.load_state_dict(o.state_dict())
    return state["t"], state["d"], state["H_diag"], again.state[x]["t"]


# --- Schedules -----------------------------------------------------------------------------------------


def rates(o: Any) -> list[float]:
    return [group["lr"] for group in o.param_groups]


@program
def milestones_at_zero(T):
    schedules, results = T.optim.lr_scheduler, []
    for milestones in ([0], [-1], [2]):
        o = T.optim.SGD([leaf(T)], lr=0.5)
        parts = [schedules.ConstantLR(o, 0.1, 2), schedules.ExponentialLR(o, 0.9)]
        s = schedules.SequentialLR(o, parts, milestones)
        results.append(rates(o))
        for _ in range(4):
            o.step()
            s.step()
            results += [rates(o), s.get_last_lr(), [part.last_epoch for part in parts]]
    return results


@program
def warm_restarts_that_go_on_past_the_first(T):
    results = []
    for last, period, factor in ((4, 2, 2), (4, 1, 3), (7, 3, 1)):
        o = T.optim.SGD([{"params": [leaf(T)], "initial_lr": 0.5}], lr=0.5)
        s = T.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, period, factor, last_epoch=last)
        for _ in range(4):
            o.step()
            s.step()
            results += [rates(o), s.T_cur, s.T_i]
    return results


@program
def a_group_that_the_schedule_does_not_know(T):
    o = T.optim.SGD([leaf(T)], lr=0.5)
    s = T.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.5**epoch)
    o.add_param_group({"params": [leaf(T)]})
    o.step()
    s.step()


@program
def a_watched_step_does_not_keep_its_optimizer(T):
    gc.collect()
    gc.disable()
    try:
        o = T.optim.Adam([leaf(T)])
        s = T.optim.lr_scheduler.StepLR(o, 1)
        o.step()
        s.step()
        held = [weakref.ref(o), weakref.ref(s)]
        del o, s
        return [r() is None for r in held]
    finally:
        gc.enable()


@program
def averages_of_whole_numbers(T):
    utils = T.optim.swa_utils
    model = T.nn.Linear(1, 1)
    model.register_buffer("n", T.tensor(3))
    average = utils.AveragedModel(model, use_buffers=True, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9))
    found = []
    for _ in range(3):
        average.update_parameters(model)
        found.append(average.module.n.clone())
        model.n += 4
    return found


# -------------------------------------------------------------------------------------------------------


# --- Steps with other parameters -----------------------------------------------------------------------


def swapped(T: Any, change: Any = None, kind: str = "Adam") -> Any:
    """Step with other parameters, and with a state dict as `change` leaves it."""
    p = leaf(T)
    o = getattr(T.optim, kind)([p])
    p.grad = T.ones_like(p)
    if change != "no state":
        o.step()
    other, state = {"weight": p.detach().clone()}, copy.deepcopy(o.state_dict())
    other["weight"].grad = T.full_like(p, 2.0)
    if callable(change):
        other, state = change(other, state) or (other, state)
    before, params = o.state, o.param_groups[0]["params"]
    with T.optim.swap_in_optimizer_params_and_state(o, other, state):
        o.step()
        inside = o.param_groups[0]["lr"], o.param_groups[0]["params"][0] is other["weight"]
    kept = o.state is before, o.param_groups[0]["params"] is params, o.param_groups[0]["lr"]
    return p, other, state["state"][0]["exp_avg"], inside, kept


@program
def swapped_parameters(T):
    def slower(other, state):
        state["param_groups"][0]["lr"] = 0.5

    return swapped(T), swapped(T, slower, "AdamW")


@program
def swapped_parameters_that_do_not_fit(T):
    def given(**fields):
        return lambda other, state: (other, {**state, **fields})

    def group(**fields):
        return lambda other, state: state["param_groups"][0].update(fields)

    changes = [
        "no state", lambda other, state: (other, [state]), lambda other, state: ({}, state), given(state=[]),
        given(state={0: 1}), given(state={7: {}}), given(param_groups={}), given(param_groups=[]),
        given(param_groups=[[]]), group(params=["a"]), group(params=[]), group(more=1),
    ]  # fmt: skip
    return [refusal(lambda change=change: swapped(T, change)) for change in changes]


# --- Words and small print -----------------------------------------------------------------------------


@program
def rprop_of_a_gradient_that_is_not_a_number(T):
    p = T.ones(3, 2).t().requires_grad_()
    o = T.optim.Rprop([p])
    for _ in range(2):
        p.grad = T.tensor([[float("nan"), float("inf"), 1.0], [0.0, -1.0, float("nan")]])
        o.step()
    return p, o.state[p]["prev"], o.state[p]["step_size"], o.state[p]["step_size"].stride()


@program
def momentum_lies_as_the_gradient_does(T):
    p = T.ones(3, 2).t().requires_grad_()
    o = T.optim.SGD([p], lr=0.1, momentum=0.9)
    for _ in range(2):
        p.grad = T.arange(6.0).reshape(2, 3)
        o.step()
    return p, p.stride(), o.state[p]["momentum_buffer"], o.state[p]["momentum_buffer"].stride()


@program
def what_cannot_be_captured_or_fused(T):
    def step(kind, p, **options):
        o = getattr(T.optim, kind)([p], **options)
        p.grad = T.ones_like(p)
        o.step()

    def of_rows(kind):
        p = T.ones(3, 2, requires_grad=True)
        o = getattr(T.optim, kind)([p], fused=True)
        p.grad = T.ones(3, 2).to_sparse()
        o.step()

    kinds = ["Adam", "NAdam", "ASGD", "RAdam", "Rprop"]
    return [
        *[refusal(lambda k=k: step(k, leaf(T), capturable=True)) for k in kinds],
        refusal(lambda: step("Adam", leaf(T), capturable=True, foreach=True)),
        refusal(lambda: T.optim.SGD([T.ones(2, dtype=T.int64)], fused=True)),
        refusal(lambda: of_rows("SGD")),
        refusal(lambda: T.optim.Adam([leaf(T)], lr="fast")),
        refusal(lambda: T.optim.Adam([leaf(T)], betas=0.9)),
        refusal(lambda: T.optim.lr_scheduler.ChainedScheduler([object()])),
    ]


@program
def warnings_that_lead_to_the_manual(T):
    def heard(act):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            act()
        return [(w.category, "#how-to-adjust-learning-rate" in str(w.message), w.filename) for w in caught]

    def schedule():
        o = T.optim.SGD([leaf(T)], lr=0.1)
        return o, T.optim.lr_scheduler.StepLR(o, 1)

    def overridden():
        o, s = schedule()
        o.step = lambda: None
        s.step()

    return heard(lambda: schedule()[1].step()), heard(overridden)


@program
def helpers_of_schedules_that_packages_write(T):
    module = import_module(T.__name__ + ".optim.lr_scheduler")

    class Constant(module.LRScheduler):
        def get_lr(self):
            module._warn_get_lr_called_within_step(self)
            return module._param_groups_val_list(self.optimizer, "lr")

    o = T.optim.SGD([leaf(T)], lr=T.tensor(0.1))
    s = Constant(o)
    with module._enable_get_lr_call(s), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = s.get_lr()
    module._update_param_group_val(o.param_groups[0], "lr", 0.5)
    return found, o.param_groups[0]["lr"], module._format_param("x", o, 3)


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Program) -> None:
    same(function)


@needs_torch
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("function", [from_an_older_checkpoint, from_an_older_pickle], ids=lambda f: f.__name__)
def test_state_of_long_ago(function: Any, name: str) -> None:
    same(lambda T: function(T, name), 1e-5)


def test_momentum_is_part_of_the_graph_from_the_first_step_on() -> None:
    import adjoint

    start = leaf(adjoint)
    p = start.clone()
    o = adjoint.optim.SGD([p], lr=0.1, momentum=0.9, differentiable=True)
    for _ in range(3):
        (p.grad,) = adjoint.autograd.grad(((p - 1) ** 2).sum(), p, create_graph=True)
        o.step()
    (g,) = adjoint.autograd.grad(p.sum(), start)
    adjoint.testing.assert_close(g, adjoint.full((3,), 0.062, dtype=adjoint.float64))  # torch: 0.46
