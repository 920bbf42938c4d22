"""Names of torch's public modules that adjoint's lack: those that can answer harmlessly do, the others raise on use."""

from __future__ import annotations

import contextlib
import enum
import importlib
from typing import Any

from ... import overrides
from ...autograd.function import Function
from ...autograd.variable import Variable
from ...core import dtypes
from ...futures import Future
from ...testing.comparison import TOLERANCES
from .absent import Absent

__all__ = ["LACKING"]


class DLDeviceType(enum.IntEnum):
    """Where memory lies, as DLPack numbers it."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3


class LoadEndianness(enum.Enum):
    """In which order the bytes of a file's numbers are."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class TracerWarning(Warning):
    """A trace may not be valid for other inputs."""


class ScriptWarning(Warning):
    """A script is not what its author may think."""


class SourceChangeWarning(Warning):
    """The source of a saved class has changed."""


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def _same(value: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the argument."""
    return value


def _always(value: Any) -> Any:
    return lambda *args, **kwargs: value


@contextlib.contextmanager
def _context(*args: Any, **kwargs: Any) -> Any:
    """Enclose a block, and do nothing else."""
    yield


def _is_recent(module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True) -> bool:
    """Return whether a module says that its version is at least this."""
    version = str(module.__version__).split(".")
    return tuple(int(part) for part in version[: len(req_version_tuple)] if part.isdigit()) >= req_version_tuple


def _dispatch_mode() -> Any:
    return importlib.import_module("adjoint.utils._python_dispatch").TorchDispatchMode


def _default_tolerances(*inputs: Any, dtype_precisions: Any = None) -> tuple[float, float]:
    """Return by how much values of some dtypes may differ: the relative and the absolute part of the loosest."""
    names = [getattr(value, "dtype", value).name for value in inputs]
    pairs = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _get_tolerances(*inputs: Any, rtol: Any, atol: Any, id: Any = ()) -> tuple[float, float]:
    """Return the tolerances that are given, or the default ones."""
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or unspecified, but got {rtol=}, {atol=}")
    return (rtol, atol) if rtol is not None else _default_tolerances(*inputs)


_ASKING = {
    "has_torch_function": overrides.has_torch_function,
    "has_torch_function_unary": overrides.has_torch_function_unary,
    "has_torch_function_variadic": overrides.has_torch_function_variadic,
}
_no, _zero = _always(False), _always(0)
_MEMORY = {
    "caching_allocator_enable": _nothing, "get_per_process_memory_fraction": _always(1.0), "memory_cached": _zero,
    "set_per_process_memory_fraction": _nothing, "reset_accumulated_memory_stats": _nothing,
    "max_memory_cached": _zero, "reset_max_memory_cached": _nothing, "memory_snapshot": _always([]),
    "list_gpu_processes": _always("no processes are running"), "get_allocator_backend": _always("native"),
    "memory_stats_as_nested_dict": _always({}), "host_memory_stats": _always({}),
    "host_memory_stats_as_nested_dict": _always({}), "reset_accumulated_host_memory_stats": _nothing,
    "reset_peak_host_memory_stats": _nothing,
}  # fmt: skip
_ATTENTION = {
    "allow_fp16_bf16_reduction_math_sdp": _nothing, "fp16_bf16_reduction_math_sdp_allowed": _no,
    "is_ck_sdpa_available": _no, "sdp_kernel": _context,
}  # fmt: skip
_TYPES = {
    "optim.optimizer": "Indices TensorListList Args Kwargs StateDict DeviceDict DeviceDtypeDict "
                       "GlobalOptimizerPreHook GlobalOptimizerPostHook",
    "optim.swa_utils": "PARAM_LIST", "optim.adam": "DeviceDict DeviceDtypeDict", "optim.sgd": "DeviceDict",
    "compiler": "FuncType", "utils._contextlib": "FuncType", "distributions.utils": "Device",
    "nn.modules.module": "DeviceLikeType", "serialization": "FileLike", "hub": "MAP_LOCATION", "sparse": "DimOrDims",
    "nn.functional": "BroadcastingList1 BroadcastingList2 BroadcastingList3", "types": "FloatLikeType BoolLikeType "
    "PySymType", "utils._pytree": "Fn Fn2 Fn3 FnAny TypeAny Type2 Type3 KeyEntry KeyPath FlattenFunc UnflattenFunc "
    "FlattenWithKeysFunc FlattenFn UnflattenFn ToDumpableContextFn FromDumpableContextFn ToStrFunc MaybeFromStrFunc "
    "FlattenWithKeysFn MapOnlyFn PyTreeSpec",
}  # fmt: skip
_ANSWERS: dict[str, dict[str, Any]] = {
    "export": {"register_dataclass": _nothing},
    "testing._comparison": {"default_tolerances": _default_tolerances, "get_tolerances": _get_tolerances},
    "testing._internal.common_device_type": {
        "e4m3_type": dtypes.float8_e4m3fn, "e5m2_type": dtypes.float8_e5m2, "E4M3_MAX_POS": 448.0,
        "E5M2_MAX_POS": 57344.0, "GPU_TYPES": ["cuda", "mps", "xpu", "mtia"],
        "NATIVE_DEVICES": ("cpu", "cuda", "xpu", "meta", "mps", "mtia", "privateuseone"),
    },
    "testing._internal.common_utils": {"DEVICE_LIST_SUPPORT_PROFILING_TEST": ("cpu", "cuda", "xpu")},
    "utils._python_dispatch": {
        "is_in_torch_dispatch_mode": _no, "BaseTorchDispatchMode": _dispatch_mode(),
        "return_and_correct_aliasing": lambda func, args, kwargs, out: out,
    },
    "utils.dlpack": {"DLDeviceType": DLDeviceType},
    "autograd": {
        **_ASKING, "kineto_available": _no, "is_view_replay_enabled": _no,
    },
    "autograd.function": {"FunctionMeta": type(Function)},
    "autograd.variable": {"VariableMeta": type(Variable)},
    "autograd.profiler": {"kineto_available": _no},
    "functional": _ASKING, "nn.functional": _ASKING,
    "cuda": {
        **_MEMORY, "default_generators": (), "has_half": True, "has_magma": False, "is_tf32_supported": _no,
        "can_device_access_peer": _no, "set_sync_debug_mode": _nothing, "get_sync_debug_mode": _zero,
        "set_stream": _nothing, "get_gencode_flags": _always(""),
    },
    "cuda.memory": _MEMORY,
    "cuda.amp": {"amp_definitely_not_available": _no},
    "backends.cuda": {
        **_ATTENTION, "preferred_linalg_library": _always("default"), "preferred_blas_library": _always("default"),
        "preferred_rocm_fa_library": _always("default"), "cufft_plan_cache": (),
    },
    "backends.mkl": {"VERBOSE_OFF": 0, "VERBOSE_ON": 1, "verbose": _context},
    "backends.mps": {"is_macos_or_newer": _no, "is_macos13_or_newer": _no},
    "compiler": {
        "nested_compile_region": _same, "wrap_numpy": _same, "set_default_backend": _nothing,
        "get_default_backend": _always("inductor"), "set_enable_guard_collectives": _no,
    },
    "jit": {
        "TracerWarning": TracerWarning, "ScriptWarning": ScriptWarning, "Error": RuntimeError,
        "TracingCheckError": RuntimeError, "Future": Future, "onednn_fusion_enabled": _no,
    },
    "serialization": {
        "LoadEndianness": LoadEndianness, "get_default_load_endianness": _always(None), "IS_WINDOWS": False,
        "set_default_load_endianness": _nothing, "get_crc32_options": _always(True), "set_crc32_options": _nothing,
        "get_default_mmap_options": _always(2), "set_default_mmap_options": _context, "register_package": _nothing,
        "location_tag": _always("cpu"), "check_module_version_greater_or_equal": _is_recent,
        "MAGIC_NUMBER": 0x1950A86A20F9469CFC6C, "PROTOCOL_VERSION": 1001, "SourceChangeWarning": SourceChangeWarning,
    },
    "storage": {"HAS_NUMPY": True},
    "amp.autocast_mode": {"HAS_NUMPY": True},
    "cpu": {
        "get_capabilities": _always({}), "is_initialized": _always(True), "_is_avx2_supported": _no,
        "_is_avx512_supported": _no, "_is_vnni_supported": _no, "_is_amx_tile_supported": _no,
    },
    "version": {"rocm": None},
    "sparse": {"as_sparse_gradcheck": _same},
    "types": {"py_sym_types": ()},
    "accelerator": {
        "get_memory_info": _always((0, 0)), "max_memory_allocated": _zero, "max_memory_reserved": _zero,
        "memory_allocated": _zero, "memory_reserved": _zero, "memory_stats": _always({}),
        "reset_peak_memory_stats": _nothing, "reset_accumulated_memory_stats": _nothing, "empty_host_cache": _nothing,
    },
}  # fmt: skip

_ABSENT = {
    "export": (
        "save load unflatten draft_export dims ShapesCollection AdditionalInputs CustomDecompTable Constraint "
        "default_decompositions FlatArgsAdapter UnflattenedModule ModuleCallSignature ModuleCallEntry"
    ),
    "utils": (
        "generate_methods_for_privateuse1_backend rename_privateuse1_backend get_cpp_backtrace "
        "ThroughputBenchmark set_module cmake_prefix_path"
    ),
    "utils._python_dispatch": (
        "set_is_in_mode_without_ignore_compile_internals is_in_any_mode_without_ignore_compile_internals "
        "any_torch_dispatch_mode_on_stack TraceableWrapperSubclass TensorWithFlatten transform_subclass "
        "AliasInfo SchemaInfo get_alias_info autograd_would_have_decomposed"
    ),
    "utils._pytree": (
        "DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL NO_SERIALIZED_TYPE_NAME_FOUND EnumEncoder "
        "SUPPORTED_SERIALIZED_TYPES SERIALIZED_TYPE_TO_PYTHON_TYPE CONSTANT_NODES register_constant "
        "is_constant_class ConstantNode is_namedtuple is_namedtuple_class is_namedtuple_instance "
        "structseq Py_TPFLAGS_BASETYPE is_structseq_class STANDARD_DICT_TYPES BUILTIN_TYPES treespec_leaf "
        "treespec_tuple treespec_dict map_only enum_object_hook treespec_dumps treespec_loads "
        "treespec_pprint pytree_to_str str_to_pytree arg_tree_leaves"
    ),
    "utils.checkpoint": "DefaultDeviceType CheckpointFunction SAC_IGNORED_OPS GraphExecGroup",
    "utils.hooks": "BackwardHook",
    "utils.data": (
        "argument_validation guaranteed_datapipes_determinism non_deterministic runtime_validation "
        "runtime_validation_disabled"
    ),
    "autograd.function": "custom_function_call AUTOGRAD_FUNCTION_COUNTER",
    "autograd.graph": (
        "region_activation_memory_budget set_warn_on_accumulate_grad_stream_mismatch set_override_stale_capture_stream"
    ),
    "autograd.gradcheck": (
        "get_numerical_jacobian get_numerical_jacobian_wrt_specific_input FAILED_NONDET_MSG "
        "get_analytical_jacobian FAILED_BATCHED_GRAD_MSG FAILED_BATCHED_GRAD_MSG_FWD_AD "
        "FAST_FAIL_SLOW_OK_MSG"
    ),
    "autograd.profiler": (
        "MEMORY_EVENT_NAME MemRecordsAcc OUT_OF_MEMORY_EVENT_NAME load_nvprof EnforceUnique parse_nvprof_trace"
    ),
    "func": "rearrange",
    "cuda": (
        "graph_pool_handle GreenContext DEVICE_REQUIREMENT PYTORCH_RELEASES_CODE_CC cudart cudaStatus "
        "CudaError check_error get_stream_from_external current_blas_handle current_solver_handle "
        "device_memory_used memory_usage utilization temperature power_draw clock_rate "
        "caching_allocator_alloc caching_allocator_delete caching_allocator_disabled "
        "CUDAPluggableAllocator change_current_allocator use_mem_pool ByteStorage DoubleStorage "
        "FloatStorage HalfStorage LongStorage IntStorage ShortStorage CharStorage BoolStorage "
        "BFloat16Storage ComplexDoubleStorage ComplexFloatStorage"
    ),
    "cuda.memory": (
        "caching_allocator_alloc caching_allocator_delete caching_allocator_disabled "
        "CUDAPluggableAllocator change_current_allocator MemPool use_mem_pool"
    ),
    "cuda.streams": "ExternalStream",
    "backends.cuda": (
        "cuFFTPlanCacheAttrContextProp cuFFTPlanCache cuFFTPlanCacheManager cuBLASModule "
        "cublas_workspace_size cublaslt_workspace_size blas_workspace_size"
    ),
    "backends.mps": "get_name get_core_count",
    "multiprocessing": "ENV_VAR_PARALLEL_START",
    "profiler": "ExecutionTraceObserver",
    "nn.utils.rnn": "PackedSequence_",
    "nn.utils.spectral_norm": "SpectralNormLoadStateDictPreHook SpectralNormStateDictHook",
    "nn.functional": "ScalingType SwizzleType assert_int_or_pair grouped_mm scaled_mm scaled_grouped_mm",
    "nn.parallel": "parallel_apply replicate gather scatter DistributedDataParallelCPU",
    "nn.attention": (
        "WARN_FOR_UNFUSED_KERNELS register_flash_attention_impl activate_flash_attention_impl "
        "list_flash_attention_impls current_flash_attention_impl restore_flash_attention_impl"
    ),
    "optim": "swap_in_optimizer_params_and_state",
    "optim.adam": "adam",
    "optim.sgd": "sgd",
    "compiler": (
        "CacheInfo save_cache_artifacts load_cache_artifacts keep_portable_guards_unsafe "
        "skip_guard_on_inbuilt_nn_modules_unsafe skip_guard_on_all_nn_modules_unsafe "
        "keep_tensor_guards_unsafe skip_guard_on_globals_unsafe skip_all_guards_unsafe "
        "load_compiled_function"
    ),
    "jit": (
        "run_frozen_optimizations last_executed_optimized_graph CompilationUnit RecursiveScriptClass "
        "jit_module_from_flatbuffer save_jit_module_to_flatbuffer ONNXTracedModule TopLevelTracedModule "
        "TracedModule export_opnames"
    ),
    "library": "device_types_t NAMELESS_SCHEMA get_kernel",
    "hub": (
        "ENV_GITHUB_TOKEN ENV_TORCH_HOME ENV_XDG_CACHE_HOME DEFAULT_CACHE_DIR VAR_DEPENDENCY "
        "MODULE_HUBCONF READ_DATA_CHUNK"
    ),
    "random": "thread_safe_generator",
    "serialization": (
        "LONG_SIZE INT_SIZE SHORT_SIZE STORAGE_KEY_SEPARATOR STORAGE UNSAFE_MESSAGE MAP_PRIVATE "
        "MAP_SHARED skip_data validate_cuda_device validate_hpu_device default_restore_location "
        "normalize_storage_type storage_to_tensor_type StorageType"
    ),
    "sparse": (
        "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT "
        "SparseSemiStructuredTensorCUTLASS to_sparse_semi_structured spsolve"
    ),
    "amp.autocast_mode": "autocast_decorator",
    "amp.grad_scaler": "OptState",
    "accelerator": "Graph get_device_capability",
    "cpu": "Stream Event StreamContext",
}


def _lacking() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for module, names in _ABSENT.items():
        found.setdefault(module, {}).update({name: Absent(f"torch.{module}.{name}") for name in names.split()})
    for module, names in _TYPES.items():
        found.setdefault(module, {}).update(dict.fromkeys(names.split(), Any))
    for module, answers in _ANSWERS.items():
        found.setdefault(module, {}).update(answers)
    return found


LACKING = _lacking()
