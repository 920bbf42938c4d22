# ruff: noqa: S301, S307 - what is evaluated and unpickled is written here
"""Calls with one wrong argument, over every public function: the class of the error must be torch's.

``python -m gates.bad_input --minutes 5 --seed 0`` takes calls that both libraries accept: torch's tables of operators
(as functions, methods and in-place methods), layers (constructor and forward) and optimizers, the public functions and
methods that are in no table, and the calls of `CALLS`. In each it replaces one argument, leaves one out or adds one,
and compares what is raised. Its verdicts:

==========  ==========================================================================
same        a handler for torch's class catches adjoint's exception; or both accept
class       another class of exception
accepted    adjoint takes what torch refuses
refused     adjoint refuses what torch takes
opaque      the message is about internals of adjoint or NumPy, not about the call
documented  another outcome, which `docs/pytorch.md` names as better
==========  ==========================================================================
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import inspect
import itertools
import operator
import os
import pickle
import random
import re
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import adjoint

from .summary import summary

try:
    import torch

    from tests.conformance import modules, optimizers
    from tests.conformance.entries import ENTRIES, function_of, method_of, why_skipped
    from tests.conformance.translate import lookup, to_adjoint
except ImportError:  # the judge; `main` says so
    torch = None  # type: ignore[assignment]

# Words about internals of adjoint or NumPy, which do not describe what the caller did.
OPAQUE = re.compile(
    r"object has no attribute|object is not (subscriptable|iterable|callable)|ufunc '|could not be broadcast"
    r"|truth value of an array|not supported for the input types|setting an array element|unhashable type"
    r"|only (0-dimensional|length-1|integer scalar) arrays|only integers, slices|cannot unpack|Cannot interpret"
    r"|operands could not|data type .* not understood|NoneType|not supported between|zip\(\)"
    r"|index out of range|list indices|missing .* required positional"
)
# Words that name the argument, or the call.
CLEAR = re.compile(
    r"must be .*, (not|but) |to be Tensors, got|must be Tensor, got|Input arguments must all be"
    r"|invalid combination of arguments|must be callable"
    r"|^[\w.]+\(\) (missing|takes|got)|'mode'|'dim'|index out of range in self"
)
# What torch's own Python code says of an argument that it did not look at: there a clear TypeError is better.
STUMBLED = re.compile(
    r"object has no attribute|Boolean value of Tensor|truth value of an array|a value of type .* for argument"
    r"|referenced before|not associated with a value|index out of range|not supported between|object is not"
    r"|unsupported operand|can only concatenate|has no len|iinfo\(\) requires|INTERNAL ASSERT"
    r"|Could this error message be improved"
)
# Rows of docs/pytorch.md, by torch's words: operands of several dtypes, meta tensors, devices that are not there.
_OF_DTYPES = re.compile(
    r"expected scalar type \w+ but found|[sS]ame d?type|mixed dtype|to have scalar type"
    r"|can't be cast to the desired output type"
)
_OF_META = re.compile(r"Meta tensors|on the expected device|same device|cpu DeviceType")
# Rows by torch's words and the wrong value: a size without a tuple, `var(x, dim=True)`, `round(integers, decimals=0)`.
_OF_FORMS = {
    "must be tuple of ints, not int": ("0", "-7", "99"),
    "(std|var)(_mean)?\\(\\) received an invalid combination": ("True",),
    r"output with shape \[\] doesn't match the broadcast": ("an empty tuple",),  # of logsumexp
    "round_vml_cpu. not implemented for 'Long'": ("integers",),
}
DEFAULT = "None, the default"
STUMBLING = ("AttributeError", "AssertionError", "KeyError")
BAD = ("class", "accepted", "refused", "opaque", "hung", "crashed")
ALLOWED = {"all": 0.02, "accepted": 0.0, "opaque": 0.0}  # shares of all calls; "all" is all of these together
FEWEST = 300  # calls that shares are of, at least: in a short run one call is a large share
_SLOW = re.compile(r"combinations|cartesian|histogramdd|vander")  # 99 of these fill the memory


class Wrong(NamedTuple):
    """An invalid value: its name, and how to make it."""

    name: str
    make: Callable[[Any, Any], Any]


PLAIN = {
    "None": None, "a string": "no", "an object": object(), "a list of strings": ["a"], "a dict": {}, "a list": [1.0],
    "1.5": 1.5, "-7": -7, "0": 0, "99": 99, "2**70": 2**70, "NaN": float("nan"), "True": True, "1j": 1j,
    "an empty tuple": (), "a device": "nonsense",
}  # fmt: skip
WRONGS = [
    *(Wrong(name, lambda T, good, value=value: value) for name, value in PLAIN.items()),
    Wrong("a dtype", lambda T, good: T.float32),
    Wrong("a 0-d tensor", lambda T, good: T.tensor(1.0)),
    Wrong("an empty tensor", lambda T, good: T.zeros(0)),
    Wrong("another shape", lambda T, good: T.ones(7, 3, 5)),
    Wrong("integers", lambda T, good: good.long() if hasattr(good, "long") else T.tensor([1, 2])),
    Wrong("booleans", lambda T, good: good.bool() if hasattr(good, "bool") else T.tensor([True])),
    Wrong("complex", lambda T, good: good.to(T.complex64) if hasattr(good, "to") else T.complex64),
    Wrong("an array", lambda T, good: np.ones(3)),
    Wrong("a meta tensor", lambda T, good: T.ones(2, 2, device="meta")),
]
# Changes of the call instead of an argument.
EXTRA, UNKNOWN, FEWER = Wrong("an extra argument", None), Wrong("an unknown keyword", None), Wrong("one fewer", None)  # type: ignore[arg-type]


class Subject(NamedTuple):
    """A call that both libraries accept: the functions, and what makes the arguments in the words of a library."""

    name: str
    theirs: Callable[..., Any]
    ours: Callable[..., Any]
    given: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]


class Call(NamedTuple):
    """A call with one thing wrong, and what came of it: the names of an exception's builtin classes, its message."""

    name: str
    place: int | str
    wrong: str
    theirs: Any  # None before it is called
    mine: Any

    @property
    def verdict(self) -> str:
        """Return the verdict by the table at the top of this file."""
        (theirs, text), (mine, said) = self.theirs, self.mine
        if "Crashed" in mine:
            return "crashed"
        if "Hung" in (*mine, *theirs):
            return "hung" if "Hung" in mine and "Hung" not in theirs else "same"
        same = bool(mine) == bool(theirs) and (not theirs or theirs[0] in mine)
        if mine and OPAQUE.search(said) and not CLEAR.search(said):
            return "same" if same and OPAQUE.search(text) else "opaque"
        if same:
            return "same"
        if not theirs:
            return "documented" if mine[0] == "TypeError" and CLEAR.search(said) else "refused"
        if not mine:
            return "documented" if self._is_better() or STUMBLED.search(text) else "accepted"
        if self.wrong == "an array" or STUMBLED.search(text) or theirs[0] in STUMBLING:
            return "documented"
        return "class"

    def _is_better(self) -> bool:
        # Rows of docs/pytorch.md: NumPy's arrays as operands, integers that become floats, differences with booleans.
        text = self.theirs[1]
        if self.wrong == DEFAULT or any(self.wrong in w and re.search(t, text) for t, w in _OF_FORMS.items()):
            return True
        if self.wrong == "2**70":
            return "too big" in text
        if self.wrong in ("integers", "booleans", "complex") and "in place" not in self.name and self.name[-1] != "_":
            if _OF_DTYPES.search(text):
                return True
        if self.wrong == "a meta tensor" and _OF_META.search(text):
            return True
        return self.wrong == "an array" or text.startswith((
            "Subtraction, the `-` operator", "Cannot access accelerator device when none", "stack expects a non-empty",
            "select(): index 0 out of range for tensor of size [0]",
        ))  # fmt: skip

    @property
    def has_phrase(self) -> bool | None:
        """Return whether adjoint's message has the first words of torch's; None where one of them accepts."""
        if not self.theirs[0] or not self.mine[0]:
            return None
        phrase = re.sub(r"^[\w.]+\(\):? ?|\(position \d+\) ", "", self.theirs[1])[:25].lower().strip()
        return phrase in re.sub(r"\(position \d+\) ", "", self.mine[1]).lower()


def _hung(*_: Any) -> None:
    raise TimeoutError("hung")


def _outcome(function: Any, args: Any, kwargs: Any) -> tuple[list[str], str]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGALRM, _hung)
        signal.alarm(20)
        try:
            function(*args, **kwargs)
        except TimeoutError:
            return ["Hung"], ""
        except Exception as error:
            return [k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins"], str(error)
        finally:
            signal.alarm(0)
        return [], ""


# --- What is called ---------------------------------------------------------------------------------

# Expressions in both libraries' words, `T` being the library: functions, each with good arguments for it.
CALLS = """
T.tensor ([1.0, 2.0], dtype=T.float32, device="cpu", requires_grad=True)
T.as_tensor ([1, 2], dtype=T.int64, device="cpu") ;; T.asarray ([1, 2], dtype=T.int64, copy=True)
T.from_numpy (np.ones(3),) ;; T.arange (0, 5, 1, dtype=T.int64) ;; T.linspace (0, 1, 5)
T.zeros (2, 3, dtype=T.float32, device="cpu", requires_grad=False) ;; T.full ((2, 3), 1.0, dtype=T.float32)
T.randint (0, 5, (3,)) ;; T.randperm (5,) ;; T.Generator ("cpu",) ;; T.manual_seed (1,) ;; T.device ("cpu", 0)
T.finfo (T.float32,) ;; T.iinfo (T.int32,) ;; T.promote_types (T.float32, T.int32) ;; T.result_type (x, 1.0)
T.can_cast (T.int32, T.float32) ;; T.is_tensor (x,) ;; T.numel (x,) ;; T.compile (lambda x: x + 1,)
T.einsum ("ij,jk->ik", m, m) ;; (lambda a, b: a + b) (x, 2.0) ;; (lambda a, b: a * b) (x, x)
(lambda a, b: a / b) (2.0, x) ;; (lambda a, b: a - b) (x, x) ;; (lambda a, b: a ** b) (x, 2)
(lambda a, b: a @ b) (m, m) ;; (lambda a, b: a < b) (x, 2) ;; (lambda a, b: a & b) (x > 0, x > 0)
(lambda a, b: a[b]) (m, 0) ;; T.autograd.grad (leaf.sum(), leaf, create_graph=True)
T.autograd.backward (leaf.sum(), inputs=[leaf])
T.autograd.functional.jacobian (lambda x: x * x, x, create_graph=False)
T.autograd.functional.hessian (lambda x: (x * x).sum(), x) ;; T.autograd.functional.vjp (lambda x: x * x, x, x)
T.autograd.functional.jvp (lambda x: x * x, x, x)
T.autograd.gradcheck (lambda x: x * x, T.ones(2, dtype=T.float64, requires_grad=True), eps=1e-6)
T.func.grad (lambda x: x.sum(), argnums=0) ;; T.func.grad(lambda x: x.sum()) (x,)
T.func.vmap (lambda x: x, in_dims=0, out_dims=0, randomness="error", chunk_size=1) ;; T.func.vmap(lambda x: x) (x,)
T.func.jvp (lambda x: x * x, (x,), (x,)) ;; T.func.vjp (lambda x: x * x, x) ;; T.func.jacrev(lambda x: x * x) (x,)
T.func.jacfwd(lambda x: x * x) (x,) ;; T.func.functional_call (T.nn.Linear(3, 2), {}, (x,))
leaf.sum().backward (None, retain_graph=True) ;; T.ones(3, requires_grad=True).register_hook (lambda g: None,)
T.utils.data.DataLoader ([1, 2, 3], batch_size=2, shuffle=False, num_workers=0, drop_last=False)
T.utils.data.TensorDataset (x, x) ;; T.utils.data.Subset ([1, 2, 3], [0, 1])
T.utils.data.random_split ([1, 2, 3], [1, 2]) ;; T.utils.data.BatchSampler (range(4), 2, False)
T.utils.data.WeightedRandomSampler ([0.5, 0.5], 2, True)
T.utils.checkpoint.checkpoint (lambda x: x * 2, x, use_reentrant=False)
T.nn.utils.clip_grad_norm_ ([leaf], 1.0, norm_type=2.0) ;; T.nn.utils.clip_grad_value_ ([leaf], 1.0, foreach=False)
T.nn.utils.parameters_to_vector ([leaf],) ;; T.nn.utils.rnn.pad_sequence ([x, x], batch_first=True, padding_value=0.0)
T.nn.utils.rnn.pack_padded_sequence (T.ones(3, 2, 4), [3, 2], batch_first=False)
T.nn.init.uniform_ (T.ones(3, 3), 0.0, 1.0) ;; T.nn.init.normal_ (T.ones(3, 3), 0.0, 1.0)
T.nn.init.constant_ (T.ones(3, 3), 0.5) ;; T.nn.init.xavier_uniform_ (T.ones(3, 3), 1.0)
T.nn.init.kaiming_normal_ (T.ones(3, 3), 0.0, "fan_in", "relu") ;; T.nn.init.orthogonal_ (T.ones(3, 3), 1.0)
T.nn.init.trunc_normal_ (T.ones(3, 3), 0.0, 1.0, -2.0, 2.0) ;; T.nn.init.calculate_gain ("relu", None)
T.nn.Parameter (x, requires_grad=True) ;; T.nn.Sequential (T.nn.Linear(3, 2),)
T.nn.ModuleList ([T.nn.Linear(3, 2)],) ;; T.nn.ModuleDict ({"a": T.nn.Linear(3, 2)},)
T.nn.Linear(3, 2).register_buffer ("b", x, persistent=True) ;; T.nn.Linear(3, 2).register_parameter ("p", None)
T.nn.Linear(3, 2).load_state_dict ({}, strict=False) ;; T.nn.Linear(3, 2).to ("cpu", T.float64)
T.nn.Linear(3, 2).requires_grad_ (True,) ;; T.nn.Linear(3, 2).train (True,) ;; T.nn.Linear(3, 2).get_submodule ("",)
T.optim.lr_scheduler.StepLR (T.optim.SGD([leaf], 0.1), 2, gamma=0.1)
T.optim.lr_scheduler.LambdaLR (T.optim.SGD([leaf], 0.1), lambda e: 0.5)
T.optim.lr_scheduler.CosineAnnealingLR (T.optim.SGD([leaf], 0.1), 10, eta_min=0.0)
T.optim.lr_scheduler.OneCycleLR (T.optim.SGD([leaf], 0.1), 0.1, total_steps=10)
T.optim.lr_scheduler.ReduceLROnPlateau (T.optim.SGD([leaf], 0.1), "min", 0.1, 10) ;; T.distributions.Normal (0.0, 1.0)
T.distributions.Normal(0.0, 1.0).log_prob (x,) ;; T.distributions.Normal(0.0, 1.0).sample ((2,),)
T.distributions.Bernoulli (probs=x / 2) ;; T.distributions.Bernoulli (logits=x) ;; T.distributions.Beta (1.0, 1.0)
T.distributions.Binomial (3, probs=x / 2) ;; T.distributions.Categorical (probs=x)
T.distributions.Categorical(probs=x).log_prob (T.tensor(1),) ;; T.distributions.Cauchy (0.0, 1.0)
T.distributions.Chi2 (1.0,) ;; T.distributions.Dirichlet (x,) ;; T.distributions.Exponential (1.0,)
T.distributions.Gamma (1.0, 1.0) ;; T.distributions.Geometric (probs=x / 2) ;; T.distributions.Gumbel (0.0, 1.0)
T.distributions.HalfNormal (1.0,) ;; T.distributions.Independent (T.distributions.Normal(x, x), 1)
T.distributions.Laplace (0.0, 1.0) ;; T.distributions.LogNormal (0.0, 1.0) ;; T.distributions.Multinomial (3, probs=x)
T.distributions.MultivariateNormal (x, T.eye(3)) ;; T.distributions.Poisson (1.0,)
T.distributions.StudentT (1.0, 0.0, 1.0) ;; T.distributions.Uniform (0.0, 1.0)
T.distributions.kl_divergence (T.distributions.Normal(0.0, 1.0), T.distributions.Normal(0.0, 1.0))
T.autograd.functional.hvp (lambda x: (x * x).sum(), x, x) ;; T.autograd.functional.vhp (lambda x: (x * x).sum(), x, x)
T.autograd.gradgradcheck (lambda x: x * x, T.ones(2, dtype=T.float64, requires_grad=True))
T.autograd.grad (leaf * 2, [leaf], grad_outputs=[x], retain_graph=False, allow_unused=True, is_grads_batched=False)
T.autograd.graph.register_multi_grad_hook ((leaf,), lambda grads: None)
T.autograd.graph.saved_tensors_hooks (lambda t: t, lambda t: t) ;; T.autograd.graph.save_on_cpu (pin_memory=False)
T.autograd.set_grad_enabled (True,) ;; T.autograd.inference_mode (True,) ;; T.autograd.detect_anomaly (False,)
T.func.hessian(lambda x: x.dot(x)) (x,) ;; T.func.hessian (lambda x: (x * x).sum(), argnums=0)
T.func.jacrev (lambda x: x * x, argnums=0, has_aux=False, chunk_size=1) ;; T.func.jacfwd (lambda x: x * x, argnums=0)
T.func.grad_and_value (lambda x: x.sum(), argnums=0, has_aux=False) ;; T.func.linearize (lambda x: x * x, x)
T.func.grad(lambda x, y: x.dot(y), argnums=(0, 1)) (x, x) ;; T.func.stack_module_state ([T.nn.Linear(3, 2)],)
T.func.vmap(lambda x, y: x * y, in_dims=(0, None)) (m, x) ;; T.func.vjp(lambda x: x * x, x)[1] (x,)
leaf.register_post_accumulate_grad_hook (lambda t: None,) ;; T.ones(3).requires_grad_ (True,)
T.utils.data.ConcatDataset ([[1, 2], [3]],) ;; T.utils.data.RandomSampler ([1, 2, 3], True, 2)
T.utils.data.SequentialSampler ([1, 2, 3],) ;; T.utils.data.SubsetRandomSampler ([0, 1],)
T.utils.data.default_collate ([x, x],) ;; T.utils.data.StackDataset (x, x)
T.utils.checkpoint.checkpoint_sequential ([T.nn.Linear(3, 3), T.nn.Linear(3, 3)], 2, x, use_reentrant=False)
T.nn.utils.vector_to_parameters (x, [leaf]) ;; T.nn.utils.get_total_norm ([x], 2.0, error_if_nonfinite=False)
T.nn.utils.rnn.pack_sequence ([x, x], enforce_sorted=True) ;; T.nn.utils.rnn.unpad_sequence (m, T.tensor([3, 2, 1]))
T.nn.utils.rnn.pad_packed_sequence (T.nn.utils.rnn.pack_sequence([x, x]), True, 0.0, 3)
T.nn.utils.parametrizations.weight_norm (T.nn.Linear(3, 2), "weight", 0)
T.nn.utils.parametrizations.spectral_norm (T.nn.Linear(3, 2), "weight", 1, 1e-12)
T.nn.utils.parametrize.register_parametrization (T.nn.Linear(3, 2), "weight", T.nn.Identity())
T.nn.init.sparse_ (T.ones(3, 3), 0.5, 0.01)
T.nn.init.dirac_ (T.ones(3, 3, 1), 1) ;; T.nn.init.eye_ (T.ones(3, 3),) ;; T.nn.init.xavier_normal_ (T.ones(3, 3), 1.0)
T.nn.Linear(3, 2).add_module ("a", T.nn.Linear(3, 2)) ;; T.nn.Linear(3, 2).apply (lambda m: None,)
T.nn.Linear(3, 2).register_forward_hook (lambda m, i, o: None, prepend=False)
T.nn.Linear(3, 2).get_parameter ("weight",) ;; T.nn.Linear(3, 2).zero_grad (True,) ;; T.nn.Linear(3, 2).eval ()
T.nn.Linear(3, 2).state_dict (prefix="", keep_vars=False) ;; T.nn.ParameterList ([leaf],)
T.nn.ParameterDict ({"a": leaf},) ;; T.nn.ModuleList([T.nn.Linear(3, 2)]).insert (0, T.nn.Linear(3, 2))
T.nn.Sequential(T.nn.Linear(3, 2)).append (T.nn.Linear(2, 2),) ;; T.nn.Buffer (x, persistent=True)
T.optim.lr_scheduler.MultiStepLR (T.optim.SGD([leaf], 0.1), [2, 4], gamma=0.1)
T.optim.lr_scheduler.ExponentialLR (T.optim.SGD([leaf], 0.1), 0.9)
T.optim.lr_scheduler.LinearLR (T.optim.SGD([leaf], 0.1), 0.3, 1.0, 5)
T.optim.lr_scheduler.ConstantLR (T.optim.SGD([leaf], 0.1), 0.3, 5)
T.optim.lr_scheduler.PolynomialLR (T.optim.SGD([leaf], 0.1), 5, 1.0)
T.optim.lr_scheduler.CyclicLR (T.optim.SGD([leaf], 0.1, momentum=0.9), 0.01, 0.1, 5)
T.optim.lr_scheduler.CosineAnnealingWarmRestarts (T.optim.SGD([leaf], 0.1), 10, 1, 0.0)
T.optim.lr_scheduler.MultiplicativeLR (T.optim.SGD([leaf], 0.1), lambda e: 0.5)
T.optim.lr_scheduler.StepLR(T.optim.SGD([leaf], 0.1), 2).step () ;; T.optim.SGD([leaf], 0.1).step (None,)
T.optim.SGD([leaf], 0.1).add_param_group ({"params": [T.ones(2, requires_grad=True)]},)
T.optim.SGD([leaf], 0.1).zero_grad (True,) ;; T.optim.swa_utils.AveragedModel (T.nn.Linear(3, 2),)
T.amp.autocast ("cpu", T.bfloat16, True) ;; T.amp.GradScaler ("cpu", 2.0, 2.0, 0.5, 2000, True)
T.autocast ("cpu", dtype=T.bfloat16, enabled=True, cache_enabled=True) ;; T.Generator().manual_seed (1,)
T.distributions.TransformedDistribution (T.distributions.Normal(x, x), [T.distributions.ExpTransform()])
T.distributions.AffineTransform (0.0, 1.0) ;; T.distributions.ContinuousBernoulli (probs=x / 2)
T.distributions.HalfCauchy (1.0,) ;; T.distributions.InverseGamma (1.0, 1.0) ;; T.distributions.Kumaraswamy (1.0, 1.0)
T.distributions.NegativeBinomial (3, probs=x / 2) ;; T.distributions.OneHotCategorical (probs=x)
T.distributions.Pareto (1.0, 1.0) ;; T.distributions.VonMises (0.0, 1.0) ;; T.distributions.Weibull (1.0, 1.0)
T.distributions.Normal(x, x).expand ((2, 3),) ;; T.distributions.Normal(0.0, 1.0).cdf (x,)
T.distributions.RelaxedBernoulli (T.tensor(1.0), probs=x / 2) ;; T.distributions.LogisticNormal (x, x)
"""
# Arguments that are tried for functions of which nothing is known.
GUESSES = (
    "()", "(x,)", "(m,)", "(x, x)", "(m, m)", "(x, 1)", "(m, 0)", "(x, x, x)", "(m, m, m)", "(2,)", "((2, 3),)",
    "([x, x],)", "(m, 0, 1)", "(x, 0, i)", "(m, m, m, m)", "(i, i)", "(m, i)", "(x, 0, i, x)", "(x, b, 1.0)",
    "(T.ones(1, 2, 4, 4), 2)", "(T.ones(1, 2, 4), 2)", "(i,)", "(m, i, 3)",
)  # fmt: skip
# Public names whose call changes the process, the screen or a file, or returns before it looks at anything.
_NOT_CALLED = re.compile(
    r"^set_|^use_|^_|save|load|compile|default|fork|num_threads|seed|hub|import|vmap|cond|while_loop|print|storage|cuda"
    r"|share_memory|register|typename|^is_|overrides|profiler|rng_state|init_|reinforce|backward|untyped|classproperty"
    r"|mkldnn|sym_|^map|apply|wait|jit|dlpack|pin_memory|to_sparse|quant|sparse|nested|coalesce|indices|values|xpu|ipu"
    r"|hpu|mtia|module_load|resize|empty|names|rename|align|refine"
)


def _names(T: Any) -> dict[str, Any]:
    small = {"x": T.ones(3), "m": T.ones(3, 3), "leaf": T.ones(3, requires_grad=True)}
    return {"T": T, "np": np, "i": T.tensor([0, 1, 0]), "b": T.ones(3) > 0, **small}


def _written(dice: random.Random) -> Iterator[Subject]:
    """Yield the calls of `CALLS`."""

    def function(name: str, T: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: eval(name, _names(T))(*args, **kwargs)

    lines = re.split(r" ;; |\n", CALLS.strip())
    dice.shuffle(lines)
    for line in lines:
        name, _, rest = line.rpartition(" (") if line[0] == "(" else line.partition(" (")
        text = f"(lambda *args, **kwargs: (args, kwargs))({rest}"
        theirs, ours = (function(name, T) for T in (torch, adjoint))
        yield Subject(name.removeprefix("T."), theirs, ours, lambda T, _text=text: eval(_text, _names(T)))


def _unlisted(dice: random.Random) -> Iterator[Subject]:
    """Yield calls of public functions and methods that torch's table of operators lacks, arguments being guessed."""
    namespaces = ("", "Tensor", "linalg", "fft", "special", "nn.functional")
    found = [
        path for namespace in namespaces for path in _functions_of(namespace) if path.rpartition(".")[2] not in ENTRIES
    ]
    dice.shuffle(found)
    for path in found:
        try:
            theirs, ours = (eval(f"T.{path}", {"T": T}) for T in (torch, adjoint))
        except AttributeError:
            continue
        for guess in GUESSES:
            subject = Subject(path, theirs, ours, lambda T, _guess=guess: (eval(_guess, _names(T)), {}))
            if _is_good(subject):
                yield subject
                break


def _functions_of(namespace: str) -> Iterator[str]:
    space = operator.attrgetter(namespace)(torch) if namespace else torch
    kinds = types.FunctionType | types.BuiltinFunctionType | types.MethodDescriptorType
    for name in dir(space):
        path = f"{namespace}.{name}".strip(".")
        if path not in ENTRIES and not _NOT_CALLED.search(name) and isinstance(getattr(space, name, None), kinds):
            yield path


def _operators(dice: random.Random) -> Iterator[Subject]:
    """Yield a sample of each operator of torch's table, as a function, a method or an in-place method."""
    # Operators are among the calls written below: what Python makes of NotImplemented is theirs.
    internal = ("_", "torch.ops", "native_dropout_backward", "slice")
    chosen = [n for n in ENTRIES if not why_skipped(n) and not n.startswith(internal)]
    dice.shuffle(chosen)
    for name in chosen:
        op = ENTRIES[name]
        form = dice.choice(("", "", "method", "in place"))
        dtype = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes), torch.bool)
        try:
            theirs = {"": op.op, "method": op.method_variant, "in place": op.inplace_variant}[form] or op.op
            ours = function_of(op) if theirs is op.op else method_of(op, theirs, op.name + "_" * (form == "in place"))
            sample = dice.choice(list(itertools.islice(op.sample_inputs("cpu", dtype), 8)))
        except Exception:  # adjoint has no such operator, or torch no sample of that dtype
            continue
        method = theirs is not op.op or isinstance(theirs, types.MethodDescriptorType)
        title = f"{name} ({form or 'method'})" if method else name
        yield Subject(title, theirs, ours, _translating(((sample.input, *sample.args), sample.kwargs)))


def _translating(given: Any) -> Callable[[Any], Any]:
    return lambda T: _copied(given) if T is torch else to_adjoint(_copied(given))


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(map(_copied, value))
    return {k: _copied(v) for k, v in value.items()} if type(value) is dict else value


def _layers(dice: random.Random) -> Iterator[Subject]:
    """Yield constructors and forward calls of torch's table of layers."""
    infos = list(modules.database().values())
    dice.shuffle(infos)
    for info in infos:
        try:
            chosen = dice.choice(modules.inputs_of(info, True))
            pair = modules.Pair(info, chosen, True)
            made = tuple(chosen.constructor_input.args), chosen.constructor_input.kwargs
            mine = tuple(map(modules._argument, made[0])), {k: modules._argument(v) for k, v in made[1].items()}
        except Exception:  # the table of layers is tested elsewhere
            continue
        given = {torch: made, adjoint: mine}
        yield Subject(info.name, info.module_cls, lookup(info.name), given.__getitem__)
        yield Subject(f"{info.name}()", pair.theirs, pair.ours, _translating((tuple(pair.call.args), pair.call.kwargs)))


def _optimizers(dice: random.Random) -> Iterator[Subject]:
    """Yield constructors of optimizers with options that torch's table sets."""
    infos = optimizers.database()
    dice.shuffle(infos)
    for info in infos:
        name, options = info.optim_cls.__name__, dice.choice(list(info.optim_inputs_func(device="cpu"))).kwargs

        def given(T: Any, options: Any = options) -> Any:
            return ([T.nn.Parameter(T.ones(2, 2))],), {"lr": 0.1, **optimizers.translated(T, options)}

        yield Subject(f"optim.{name}", info.optim_cls, getattr(adjoint.optim, name), given)


SOURCES = (_operators, _operators, _operators, _unlisted, _layers, _optimizers, _written)

# --- What is made wrong -----------------------------------------------------------------------------


def calls(dice: random.Random, names: str = "", each: int = 6) -> Iterator[Call]:
    """Yield wrong calls without end, each subject in turn, `each` of a subject."""
    while True:
        running = [source(dice) for source in SOURCES]
        while running:
            source = dice.choice(running)
            subject = next(source, None)
            if subject is None:
                running.remove(source)
            elif re.search(names, subject.name) and _is_good(subject):
                torch.distributions.Distribution.set_default_validate_args(True)  # which torch.compile switches off
                yield from _in_a_child(subject, random.Random(dice.random()), each)


def _is_good(subject: Subject) -> bool:
    try:
        given = subject.given(torch), subject.given(adjoint)
    except Exception:  # a tensor that cannot be translated
        return False
    return not _outcome(subject.theirs, *given[0])[0] and not _outcome(subject.ours, *given[1])[0]


def _in_a_child(subject: Subject, dice: random.Random, each: int) -> Iterator[Call]:
    """Yield a subject's calls, made in a process of their own: some arguments are the end of torch's."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        with open(sink, "wb") as pipe:
            for call in _made_wrong(subject, dice, each):
                pickle.dump(call, pipe)
                pipe.flush()
        os._exit(0)
    os.close(sink)
    call = Call(subject.name, "", "the first", ([], ""), None)
    with open(source, "rb") as pipe, contextlib.suppress(EOFError):
        while True:
            call = pickle.load(pipe)
            if call.mine is not None:
                yield call
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and call.mine is None and call.theirs is not None:
        yield call._replace(mine=(["Crashed"], ""))


def _made_wrong(subject: Subject, dice: random.Random, each: int) -> Iterator[Call]:
    args, kwargs = subject.given(torch)
    # A method's first argument is the tensor it is a method of.
    places = [*range(_is_method(subject.name), len(args)), *kwargs]
    for _ in range(each):
        wrong = dice.choice([*WRONGS, EXTRA, UNKNOWN, FEWER]) if places else dice.choice([EXTRA, UNKNOWN])
        place = dice.choice(places) if wrong.make else ""
        if wrong.name == "99" and _SLOW.search(subject.name):
            continue
        try:
            given = [_replaced(*subject.given(T), place, wrong, T) for T in (torch, adjoint)]
        except Exception:  # this value cannot be made of that argument
            continue
        name = DEFAULT if wrong.name == "None" and _has_default(subject.ours, place) else wrong.name
        call = Call(subject.name, place, name, None, None)
        yield call
        call = call._replace(theirs=_outcome(subject.theirs, *given[0]))
        yield call
        yield call._replace(mine=_outcome(subject.ours, *given[1]))


def _has_default(function: Any, place: int | str) -> bool:
    """Return whether None says what leaving the argument out says."""
    try:
        parameters = inspect.signature(function).parameters
        name = place if isinstance(place, str) else list(parameters)[place]
        return parameters[name].default is None
    except (IndexError, KeyError, TypeError, ValueError):
        return False


def _is_method(name: str) -> bool:
    return name.endswith((" (method)", " (in place)")) or name.startswith(("Tensor.", "__"))


def _replaced(args: Any, kwargs: Any, place: int | str, wrong: Wrong, T: Any) -> tuple[Any, Any]:
    if wrong is EXTRA:
        return (*args, *(object(),) * 12), kwargs
    if wrong is UNKNOWN:
        return args, {**kwargs, "nonsense": 1}
    if wrong is FEWER:
        return args[:-1], kwargs
    if isinstance(place, int):
        return (*args[:place], wrong.make(T, args[place]), *args[place + 1 :]), kwargs
    return args, {**kwargs, place: wrong.make(T, kwargs[place])}


def run(seconds: float, seed: int, names: str = "", show: int = 0, most: int | None = None) -> collections.Counter[str]:
    """Make calls for so long, or so many; return how many had which verdict, and torch's first words."""
    end = time.monotonic() + seconds
    found: collections.Counter[str] = collections.Counter()
    for call in calls(random.Random(seed), names):
        found[call.verdict] += 1
        found["calls"] += 1
        if call.has_phrase is not None:
            found["phrase" if call.has_phrase else "other words"] += 1
        if call.verdict in BAD and found[call.verdict] <= show:
            at = f"{call.wrong} for argument {call.place}" if call.place != "" else call.wrong
            print(f"{call.verdict}: {call.name}, {at}")
            for library, (kinds, text) in (("torch  ", call.theirs), ("adjoint", call.mine)):
                print(f"    {library}  {kinds[0] if kinds else 'ok'}: {text[:160]!r}", flush=True)
        if time.monotonic() > end or (most is not None and found["calls"] >= most):
            break
    return found


def main() -> int:
    """Run the gate, as its arguments say."""
    parser = argparse.ArgumentParser(prog="python -m gates.bad_input", description="One wrong argument, against torch.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", default="", help="a regular expression for names of functions")
    parser.add_argument("--show", type=int, default=10)
    given = parser.parse_args()
    if torch is None:
        print("torch, which judges here, is not installed")
        return 0
    torch.set_num_threads(1)  # which children may use after a fork
    found = run(60 * given.minutes, given.seed, given.names, given.show)
    total, words = found["calls"], found["phrase"] + found["other words"]
    bad = sum(found[verdict] for verdict in BAD)
    print(", ".join(f"{k} {v}" for k, v in found.most_common()))
    print(f"torch's first words: {100 * found['phrase'] / max(words, 1):.1f} % of {words} that both refuse")
    print(f"same class: {100 * (total - bad) / max(total, 1):.1f} %")
    shares = {"all": bad, "accepted": found["accepted"], "opaque": found["opaque"]}
    above = [kind for kind, count in shares.items() if count > ALLOWED[kind] * max(total, FEWEST)]
    print(f"allowed: {ALLOWED}; above it: {', '.join(above) or 'nothing'}")
    ended = found["hung"] + found["crashed"]
    print(summary("bad_input", total, wrong=bad - ended, hung=found["hung"], crashed=found["crashed"]))
    return int(bool(above) or ended > 0)


if __name__ == "__main__":
    sys.exit(main())
