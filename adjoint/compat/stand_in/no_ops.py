"""Names of torch's modules for deployment and tracing that do no harm when they do nothing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import types
from collections.abc import Callable
from typing import Any

from ... import printing
from ...core import dtypes
from ...futures import Future
from ...nn.modules.conversion import parse_to
from ...profiler import events
from ...tree import MappingKey, SequenceKey
from .answers import answer, context, decorator, no, nothing, same
from .choices import DTYPES, QSCHEMES, Tag, qscheme
from .compiled import TABLES_OF_FUNCTIONS
from .missing import MISSING
from .placements import PLACEMENTS
from .private import FUNCTORCH, PRIMS, UTILS
from .tables import TABLES
from .unsupported import UnsupportedModule

__all__ = ["ADDED", "MODULES", "offered"]


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, *args: Any, **kwargs: Any) -> Any:
    """Map a function over a dimension, as `adjoint.func.vmap` does."""
    return importlib.import_module("adjoint.func").vmap(func, in_dims, out_dims)


def _cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Call one of two functions, depending on a condition."""
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def _file_path(*parts: str) -> str:
    """Return the path of a file of the package."""
    return os.path.join(os.path.dirname(printing.__file__), *parts)


class _Keys:
    """A set of dispatch keys: here nothing is dispatched by them."""

    def __init__(self, *keys: Any) -> None:
        self.keys = keys

    def __or__(self, other: Any) -> _Keys:
        return self

    __and__ = __sub__ = add = remove = __or__


class _Symbolic:
    """The class of sizes that a tracer does not know; there are none here."""


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the values of a dict, and its keys."""
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the values of a dict with their places in it, and its keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _list_flatten(d: list[Any]) -> tuple[list[Any], None]:
    """Return the elements of a list."""
    return list(d), None


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[Any], None]:
    """Return the elements of a list with their places in it."""
    return [(SequenceKey(at), value) for at, value in enumerate(d)], None


def _list_unflatten(values: Any, context: Any) -> list[Any]:
    """Return a list of elements."""
    return list(values)


def _grouped(tensorlistlist: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """Return lists of tensors split by the device and dtype of the first list's."""
    groups: dict[Any, Any] = {}
    for index, row in enumerate(zip(*tensorlistlist, strict=True)):
        key = (row[0].device, row[0].dtype)
        lists, indices = groups.setdefault(key, ([[] for _ in row], []))
        for held, tensor in zip(lists, row, strict=True):
            held.append(tensor)
        indices.append(index)
    return groups


class _Config:
    """Settings that are remembered and change nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def _is_installed(name: str) -> bool:
    """Return whether a package is there."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even what it would be in
        return False


def _reduction_number(reduction: str) -> int:
    """Return the number that stands for how a loss reduces."""
    numbers = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}
    if reduction not in numbers:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return numbers[reduction]


_REDUCTION = {"get_enum": _reduction_number}


# A kernel given as text: it is made, and says when it is called that there is no such thing here.
def _jitted(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        "torch.cuda.jiterator is not offered by adjoint, which runs this program in torch's place"
    )


class _Formatter:
    """Writes numbers as those of a tensor are written."""

    def __init__(self, tensor: Any) -> None:
        self._format = printing._format_for(tensor.detach().cpu().numpy().ravel())

    def width(self) -> int:
        """Return the width of the widest number."""
        return self._format.width

    def format(self, value: Any) -> str:
        """Return a number as text."""
        return self._format(value)


def _may_swap(input: Any, from_: Any) -> bool:
    """Return whether ``input.data = from_`` is possible."""
    return bool(input.device.type == from_.device.type and input.layout == from_.layout)


_NVTX = {
    "range": context, "mark": nothing, "range_end": nothing,
    **dict.fromkeys(("range_push", "range_pop", "range_start"), answer(0)),
}  # fmt: skip
_JITERATOR = {"_create_jit_fn": answer(_jitted), "_create_multi_output_jit_fn": answer(_jitted)}

_PROFILER_UTIL = {
    "EventList": events.EventList, "FunctionEvent": events.FunctionEvent, "Interval": events.Interval,
    "FunctionEventAvg": events.FunctionEventAvg, "_format_time": events.time_text, "_format_memory": events.bytes_text,
}  # fmt: skip
_REGIONS = {"mark_compile_region": decorator}
_HIGHER_ORDER = {"cond": _cond, "invoke_subgraph": types.SimpleNamespace(mark_compile_region=decorator)}

_ABBREVIATIONS = {
    "dtype_abbrs": {
        **{getattr(dtypes, f"int{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
        **{getattr(dtypes, f"uint{bits}"): f"u{bits}" for bits in (8, 16, 32, 64)},
        dtypes.float16: "f16", dtypes.float32: "f32", dtypes.float64: "f64", dtypes.bfloat16: "bf16",
        dtypes.complex64: "c64", dtypes.complex128: "c128", dtypes.bool_: "b8",
    }
}  # fmt: skip
_OPTIONS = {
    f"{word}Options": type(f"{word}Options", (), {"__doc__": "Settings of a collective; those here have none."})
    for word in (
        "AllToAll", "Allreduce", "AllreduceCoalesced", "Allgather", "Barrier", "Broadcast", "Gather", "Reduce",
        "ReduceScatter", "Scatter",
    )
}  # fmt: skip
_TRACEBACKS: dict[str, Any] = {
    "gather_traceback": answer(None), "symbolize_tracebacks": lambda given: [[] for _ in given],
}  # fmt: skip

TABLES_OF_FUNCTIONS["_nn"]._parse_to = parse_to

# Modules that can be imported though they are not offered, and what of them does no harm. A module in one of
# these can be imported too.
MODULES: dict[str, dict[str, Any]] = {
    "_dynamo": {
        "allow_in_graph": decorator, "disable": decorator, "disallow_in_graph": decorator, "is_compiling": no,
        "optimize": decorator, "reset": nothing, "mark_dynamic": nothing, "mark_static": nothing,
        "maybe_mark_dynamic": nothing, "graph_break": nothing, "config": _Config(),
        "assume_constant_result": decorator, "forbid_in_graph": decorator, "mark_static_address": nothing,
    },
    # Indices that are batches are indices here anyway.
    "_dynamo._trace_wrapped_higher_order_op": {"TransformGetItemToIndex": context},
    "_C._distributed_c10d": _OPTIONS, "_C._autograd": {}, "_C._profiler": _TRACEBACKS,
    "_tensor_str": {"_Formatter": _Formatter},
    "_tensor": {}, "_utils": UTILS, "_weights_only_unpickler": {}, "torch_version": {"TorchVersion": str},
    **FUNCTORCH, "_higher_order_ops": _HIGHER_ORDER,
    "_higher_order_ops.invoke_subgraph": _REGIONS, "_inductor": {"config": _Config()}, "_export": {},
    "_export.wrappers": {"mark_subclass_constructor_exportable_experimental": same},
    "_library": {}, "_utils_internal": {"get_writable_path": same, "log_export_usage": nothing},
    "_prims": {}, "_prims_common": PRIMS, "_refs": {}, "_subclasses": {}, "_decomp": {}, "_lowrank": {}, "_sources": {},
    "_linalg_utils": {}, "_lobpcg": {}, "_classes": {}, "_custom_op": {}, "_appdirs": {}, "_environment": {},
    "_compile": {"_disable_dynamo": decorator}, "numa": {}, "_tensor_docs": {}, "_torch_docs": {}, "_storage_docs": {},
    "_vmap_internals": {"_vmap": _vmap, "vmap": _vmap}, "_guards": {}, "_logging": {},
    "_logging.scribe": {"open_source_signpost": nothing}, "_custom_ops": {}, "_dispatch": {}, "_lazy": {},
    "_jit_internal": {
        "Final": Any, "boolean_dispatch": nothing, "_overload": decorator, "_overload_method": decorator,
        "ignore": decorator, "export": decorator, "unused": decorator, "is_scripting": no,
        "_copy_to_script_wrapper": decorator,
    },
    "__config__": {"show": answer("adjoint on NumPy"), "parallel_info": answer("")},
    "ao": {}, "contrib": {}, "cpu": {},
    "distributed": {},
    "fx.experimental": {},
    "jit.annotations": {}, "jit._script": {}, "jit._trace": {}, "jit.mobile": {}, "jit.quantized": {},
    "jit.frontend": {},
    "distributed.autograd": {"is_available": no},
    "distributed.rpc": {"is_available": no, "api": types.SimpleNamespace(_require_initialized=decorator)},
    "monitor": {}, "mps": {
        "is_available": no, "device_count": answer(0), "empty_cache": nothing, "synchronize": nothing,
        "manual_seed": nothing, "current_allocated_memory": answer(0), "driver_allocated_memory": answer(0),
    },
    "mtia": {"is_available": no, "device_count": answer(0)},
    "onnx.symbolic_helper": {"parse_args": decorator},
    "package": {}, "quantization": {}, "masked": {}, "futures": {}, "profiler": {},
    "backends.python_native": {"available_dsls": [], "all_dsls": []},
    "backends.quantized": {"engine": "none", "supported_engines": ["none"]}, "backends.xeon": {},
    "backends.opt_einsum": {"is_available": no, "enabled": False},
    "backends.cpu": {"get_capabilities": answer({}), "get_cpu_capability": answer("DEFAULT")},
    "backends.xnnpack": {"enabled": False}, "backends.nnpack": {"is_available": no},
    "backends.cusparselt": {"is_available": no},
    "backends.mha": {}, "backends.kleidiai": {"is_available": no}, "backends.miopen": {},
    "xpu": {
        "is_available": no, "device_count": answer(0), "empty_cache": nothing, "synchronize": nothing,
        "manual_seed": nothing, "manual_seed_all": nothing,
    },
    "hpu": {"is_available": no}, "xla": {}, "cuda.jiterator": _JITERATOR, "cuda.nvtx": _NVTX, "cuda.graphs": {},
    "cuda.comm": {}, "cuda.nccl": {}, "cuda.profiler": {}, "cuda._utils": {},
    "nn.parallel.scatter_gather": {}, "nn.parallel.distributed": {}, "nn.parallel.parallel_apply": {},
    "nn.parallel.replicate": {}, "nn.parallel.comm": {}, "nn.attention": {}, "nn.intrinsic": {},
    "nn.qat": {}, "nn.quantized": {}, "nn.quantizable": {}, "nn.cpp": {},
    "nn.backends": {}, "nn._reduction": _REDUCTION, "nn.modules._functions": {}, "nn.parallel._functions": {},
    "nn.utils._expanded_weights": {}, "sparse.semi_structured": {}, "multiprocessing.queue": {},
    "multiprocessing.pool": {}, "autograd.profiler_legacy": {},
    "cuda.amp.common": {"amp_definitely_not_available": no}, "autograd.profiler_util": _PROFILER_UTIL,
    "utils._sympy": {},
    "utils._foreach_utils": {"_group_tensors_by_device_and_dtype": _grouped}, "utils.data._utils.worker": {},
    "utils.data._utils.fetch": {}, "utils.data._utils.pin_memory": {}, "utils.data._utils.signal_handling": {},
    "utils._triton": {"has_triton": no, "has_triton_package": no},
    "utils._device": {}, "utils._stats": {}, "utils._traceback": {}, "utils._ordered_set": {}, "utils._zip": {},
    "utils._typing_utils": {}, "utils.backcompat": {}, "utils.serialization": {}, "utils._debug_mode": {},
    "utils._import_utils": {"_check_module_exists": _is_installed, "dill_available": answer(_is_installed("dill"))},
    "utils._dtype_abbrs": _ABBREVIATIONS, "utils._exposed_in": {}, "utils._inspect": {}, "utils._thunk": {},
    "utils._filelock": {},
    "utils._content_store": {}, "utils._functools": {}, "utils.mkldnn": {}, "utils._runtime_estimation": {},
    "utils._config_module": {}, "utils._mode_utils": {"no_dispatch": context}, "utils._cxx_pytree": {},
    "utils.backend_registration": {}, "utils.bottleneck": {}, "utils.bundled_inputs": {},
    "utils.collect_env": {}, "utils.cpp_extension": {"CUDA_HOME": None, "ROCM_HOME": None},
    "utils.deterministic": {"fill_uninitialized_memory": True}, "utils.file_baton": {},
    "utils.hipify": {}, "utils.jit": {}, "utils.mobile_optimizer": {}, "utils.model_zoo": {},
    "utils.show_pickle": {}, "utils.throughput_benchmark": {}, "utils.viz": {},
    "utils.data.datapipes": {}, "utils.data.graph": {}, "utils.data.graph_settings": {}, "testing._internal": {},
    **TABLES,
    "windows": {}, "_numpy": {}, "_strobelight": {}, "_vendor": {}, "_streambase": {},
    "distributed.tensor": PLACEMENTS, "distributed.tensor.placement_types": PLACEMENTS,
}  # fmt: skip


# Names that adjoint's modules do not have, and that do no harm.
ADDED: dict[str, dict[str, Any]] = {
    "_C": {
        "DispatchKey": _Config(), "DispatchKeySet": _Keys, "_ExcludeDispatchKeyGuard": context,
        "_DisableFuncTorch": context, "_DisableAutocast": context,
        "_AutoDispatchBelowAutograd": context, "_jit_set_profiling_mode": nothing, "_is_tracing": no,
        "_jit_set_profiling_executor": nothing, "_jit_override_can_fuse_on_cpu": nothing,
        "_functorch": UnsupportedModule("torch._C._functorch", FUNCTORCH["_C._functorch"]),
        "_jit_override_can_fuse_on_gpu": nothing, "_has_cuda": False, "_cuda_isCurrentStreamCapturing": no,
        **TABLES_OF_FUNCTIONS, "Future": Future, "Graph": _Config, "_TensorMeta": type, "Value": _Config,
        "ScriptModule": _Config, "ScriptFunction": _Config, "Node": _Config,
        "_get_privateuse1_backend_name": answer("privateuseone"), "_get_cpu_capability": answer("DEFAULT"),
        "_get_graph_executor_optimize": no, "_jit_set_num_profiled_runs": answer(0), "has_lapack": True,
        "has_spectral": True, "has_openmp": False, "has_mkl": False, "_cuda_clearCublasWorkspaces": nothing,
    },
    "compiler": {
        "substitute_in_graph": decorator, "set_stance": context,
    },
    "": {
        **QSCHEMES, **DTYPES, "Tag": Tag, "qscheme": qscheme,
        "ScriptModule": _Symbolic, "ScriptFunction": _Symbolic, "_disable_dynamo": decorator,
        "_has_compatible_shallow_copy_type": _may_swap, "cond": _cond, "is_vulkan_available": no,
        "cudnn_is_acceptable": no, "set_vital": no, "get_file_path": _file_path, "classes": _Config(),
        "DeviceObjType": type, "TensorType": _Symbolic, "SymInt": _Symbolic,
        "SymFloat": _Symbolic, "SymBool": _Symbolic,
    },
    "cuda": {
        "jiterator": types.SimpleNamespace(**_JITERATOR),
        "_initialized": False, "_lazy_init": nothing, "get_arch_list": answer([]),
        "nvtx": types.SimpleNamespace(**_NVTX),
    },
    "backends": {
        "disable_global_flags": nothing, "flags_frozen": no, "__allow_nonbracketed_mutation": context,
    },
    "backends.mkldnn": {"enabled": False, "flags": context, "set_flags": nothing},
    "profiler": {"kineto_available": no},
    "utils._pytree": {
        **dict.fromkeys(("Context", "DumpableContext"), Any),
        "_dict_flatten": _dict_flatten, "_dict_flatten_with_keys": _dict_flatten_with_keys, "_get_node_type": type,
        "_list_flatten": _list_flatten, "_list_flatten_with_keys": _list_flatten_with_keys,
        "_list_unflatten": _list_unflatten, "is_structseq_instance": no, "is_structseq": no,
    },
    "utils.data": {"functional_datapipe": decorator},
    "utils.data._utils": {"HAS_NUMPY": True, "MP_STATUS_CHECK_INTERVAL": 5.0, "python_exit_status": False},
    "utils.data.dataloader": {
        "_collate_fn_t": Callable, "_worker_init_fn_t": Callable, "_sharing_strategy": None,
    },
}  # fmt: skip


for _module, _names in MISSING.items():
    ADDED[_module] = {**_names, **ADDED.get(_module, {})}


def offered(name: str) -> dict[str, Any] | None:
    """Return what a module offers that does no harm; None for one that torch does not have either."""
    if name in MODULES:
        return MODULES[name]
    parents = name.split(".")
    inside = any(".".join(parents[:count]) in MODULES for count in range(1, len(parents)))
    private = len(parents) > 1 and parents[-1].startswith("_")  # torch has many, and they come and go
    return {} if inside or private else None
