"""Names of torch's public modules that adjoint's lack: those that can be no-ops are, the others raise on use."""

from __future__ import annotations

import enum
import importlib
from typing import Any

from ... import overrides
from ...autograd.variable import Variable
from ...core import dtypes
from ...futures import Future
from ...testing.comparison import TOLERANCES
from .answers import answer, context, no, nothing, same
from .unsupported import Unsupported

__all__ = ["MISSING"]


class DLDeviceType(enum.IntEnum):
    """The kinds of devices, as DLPack numbers them."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3


class LoadEndianness(enum.Enum):
    """The byte order of a file."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class TracerWarning(Warning):
    """A trace may not be valid for other inputs."""


class ScriptWarning(Warning):
    """A warning about a script."""


class SourceChangeWarning(Warning):
    """The source of a saved class has changed."""


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
zero = answer(0)
_MEMORY = {
    "caching_allocator_enable": nothing, "get_per_process_memory_fraction": answer(1.0), "memory_cached": zero,
    "set_per_process_memory_fraction": nothing, "reset_accumulated_memory_stats": nothing,
    "max_memory_cached": zero, "reset_max_memory_cached": nothing, "memory_snapshot": answer([]),
    "list_gpu_processes": answer("no processes are running"), "get_allocator_backend": answer("native"),
    "memory_stats_as_nested_dict": answer({}), "host_memory_stats": answer({}),
    "host_memory_stats_as_nested_dict": answer({}), "reset_accumulated_host_memory_stats": nothing,
    "reset_peak_host_memory_stats": nothing,
}  # fmt: skip
_ATTENTION = {
    "allow_fp16_bf16_reduction_math_sdp": nothing, "fp16_bf16_reduction_math_sdp_allowed": no,
    "is_ck_sdpa_available": no, "sdp_kernel": context,
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
    "onnx": {"register_custom_op_symbolic": nothing, "unregister_custom_op_symbolic": nothing},
    "testing._comparison": {"default_tolerances": _default_tolerances, "get_tolerances": _get_tolerances},
    "testing._internal.common_device_type": {
        "e4m3_type": dtypes.float8_e4m3fn, "e5m2_type": dtypes.float8_e5m2, "E4M3_MAX_POS": 448.0,
        "E5M2_MAX_POS": 57344.0, "GPU_TYPES": ["cuda", "mps", "xpu", "mtia"],
        "NATIVE_DEVICES": ("cpu", "cuda", "xpu", "meta", "mps", "mtia", "privateuseone"),
    },
    "testing._internal.common_utils": {"DEVICE_LIST_SUPPORT_PROFILING_TEST": ("cpu", "cuda", "xpu")},
    "utils._python_dispatch": {
        "is_in_torch_dispatch_mode": no, "BaseTorchDispatchMode": _dispatch_mode(),
        "return_and_correct_aliasing": lambda func, args, kwargs, out: out,
    },
    "utils.dlpack": {"DLDeviceType": DLDeviceType},
    "autograd": {
        **_ASKING, "kineto_available": no, "is_view_replay_enabled": no,
    },
    "autograd.variable": {"VariableMeta": type(Variable)},
    "autograd.profiler": {"kineto_available": no},
    "functional": _ASKING, "nn.functional": _ASKING,
    "cuda": {
        **_MEMORY, "default_generators": (), "has_half": True, "has_magma": False, "is_tf32_supported": no,
        "can_device_access_peer": no, "set_sync_debug_mode": nothing, "get_sync_debug_mode": zero,
        "set_stream": nothing, "get_gencode_flags": answer(""),
    },
    "cuda.memory": _MEMORY,
    "cuda.amp": {"amp_definitely_not_available": no},
    "backends.cuda": {
        **_ATTENTION, "preferred_linalg_library": answer("default"), "preferred_blas_library": answer("default"),
        "preferred_rocm_fa_library": answer("default"), "cufft_plan_cache": (),
    },
    "backends.mkl": {"VERBOSE_OFF": 0, "VERBOSE_ON": 1, "verbose": context},
    "backends.mps": {"is_macos_or_newer": no, "is_macos13_or_newer": no},
    "compiler": {
        "nested_compile_region": same, "wrap_numpy": same, "set_default_backend": nothing,
        "get_default_backend": answer("inductor"), "set_enable_guard_collectives": no,
    },
    "jit": {
        "TracerWarning": TracerWarning, "ScriptWarning": ScriptWarning, "Error": RuntimeError,
        "TracingCheckError": RuntimeError, "Future": Future, "onednn_fusion_enabled": no,
    },
    "serialization": {
        "LoadEndianness": LoadEndianness, "get_default_load_endianness": answer(None), "IS_WINDOWS": False,
        "set_default_load_endianness": nothing, "get_crc32_options": answer(True), "set_crc32_options": nothing,
        "get_default_mmap_options": answer(2), "set_default_mmap_options": context, "register_package": nothing,
        "location_tag": answer("cpu"), "check_module_version_greater_or_equal": _is_recent,
        "MAGIC_NUMBER": 0x1950A86A20F9469CFC6C, "PROTOCOL_VERSION": 1001, "SourceChangeWarning": SourceChangeWarning,
    },
    "storage": {"HAS_NUMPY": True},
    "amp.autocast_mode": {"HAS_NUMPY": True},
    "cpu": {
        "get_capabilities": answer({}), "is_initialized": answer(True), "_is_avx2_supported": no,
        "_is_avx512_supported": no, "_is_vnni_supported": no, "_is_amx_tile_supported": no,
    },
    "version": {"rocm": None},
    "sparse": {"as_sparse_gradcheck": same},
    "types": {"py_sym_types": ()},
    "accelerator": {
        "get_memory_info": answer((0, 0)), "max_memory_allocated": zero, "max_memory_reserved": zero,
        "memory_allocated": zero, "memory_reserved": zero, "memory_stats": answer({}),
        "reset_peak_memory_stats": nothing, "reset_accumulated_memory_stats": nothing, "empty_host_cache": nothing,
    },
}  # fmt: skip

_UNSUPPORTED = {
    "": (
        "PyTorchFileReader PyTorchFileWriter Graph ScriptObject parse_schema vulkan _scaled_mm _scaled_mm_v2 "
        "_chunk_cat _unsafe_masked_index _unsafe_masked_index_put_accumulate"
    ),
    "_C": (
        "ScriptDict ScriptList ScriptMethod ScriptObject FileCheck FunctionSchema Argument TensorType ClassType "
        "ListType DictType OptionalType TupleType IntType FloatType BoolType StringType Type StreamObjType "
        "DeviceObjType PyTorchFileReader PyTorchFileWriter"
    ),
    "_ops": "HigherOrderOperator OpOverloadPacketMeta TorchBindOpOverload",
    "export": (
        "unflatten draft_export AdditionalInputs CustomDecompTable Constraint "
        "default_decompositions FlatArgsAdapter UnflattenedModule ModuleCallSignature ModuleCallEntry"
    ),
    "onnx": (
        "Exporter ExportOptions OnnxRegistry JitScalarType symbolic_helper utils errors ops verification "
        "testing " + " ".join(f"symbolic_opset{n}" for n in range(7, 21))
    ),
    "utils": (
        "generate_methods_for_privateuse1_backend rename_privateuse1_backend get_cpp_backtrace ThroughputBenchmark "
        "set_module cmake_prefix_path"
    ),
    "utils._python_dispatch": (
        "set_is_in_mode_without_ignore_compile_internals is_in_any_mode_without_ignore_compile_internals "
        "any_torch_dispatch_mode_on_stack TraceableWrapperSubclass TensorWithFlatten transform_subclass AliasInfo "
        "SchemaInfo get_alias_info autograd_would_have_decomposed"
    ),
    "utils._pytree": (
        "DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL NO_SERIALIZED_TYPE_NAME_FOUND EnumEncoder SUPPORTED_SERIALIZED_TYPES "
        "SERIALIZED_TYPE_TO_PYTHON_TYPE CONSTANT_NODES register_constant is_constant_class ConstantNode is_namedtuple "
        "is_namedtuple_class is_namedtuple_instance structseq Py_TPFLAGS_BASETYPE is_structseq_class "
        "STANDARD_DICT_TYPES BUILTIN_TYPES treespec_leaf treespec_tuple treespec_dict map_only enum_object_hook "
        "treespec_dumps treespec_loads treespec_pprint pytree_to_str str_to_pytree arg_tree_leaves"
    ),
    "utils.hooks": "BackwardHook",
    "utils.data": (
        "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation guaranteed_datapipes_determinism "
        "non_deterministic runtime_validation runtime_validation_disabled"
    ),
    "utils.data.dataloader": "_InfiniteConstantSampler",
    "autograd.function": "custom_function_call AUTOGRAD_FUNCTION_COUNTER",
    "autograd.gradcheck": (
        "FAILED_NONDET_MSG FAILED_BATCHED_GRAD_MSG FAILED_BATCHED_GRAD_MSG_FWD_AD FAST_FAIL_SLOW_OK_MSG"
    ),
    "autograd.profiler": (
        "MEMORY_EVENT_NAME MemRecordsAcc OUT_OF_MEMORY_EVENT_NAME load_nvprof EnforceUnique parse_nvprof_trace"
    ),
    "cuda": (
        "MemPool ExternalStream StreamContext GreenContext DEVICE_REQUIREMENT PYTORCH_RELEASES_CODE_CC cudart "
        "cudaStatus CudaError check_error get_stream_from_external current_blas_handle current_solver_handle "
        "device_memory_used memory_usage utilization temperature power_draw clock_rate caching_allocator_alloc "
        "caching_allocator_delete caching_allocator_disabled CUDAPluggableAllocator change_current_allocator "
        "use_mem_pool ByteStorage DoubleStorage FloatStorage HalfStorage LongStorage IntStorage ShortStorage "
        "CharStorage BoolStorage BFloat16Storage ComplexDoubleStorage ComplexFloatStorage"
    ),
    "cuda.memory": (
        "caching_allocator_alloc caching_allocator_delete caching_allocator_disabled CUDAPluggableAllocator "
        "change_current_allocator MemPool use_mem_pool"
    ),
    "cuda.streams": "ExternalStream",
    "backends.cuda": (
        "cuFFTPlanCacheAttrContextProp cuFFTPlanCache cuFFTPlanCacheManager cuBLASModule cublas_workspace_size "
        "cublaslt_workspace_size blas_workspace_size"
    ),
    "backends.mps": "get_name get_core_count",
    "multiprocessing": "ENV_VAR_PARALLEL_START",
    "profiler": "ExecutionTraceObserver itt",
    "nn.utils.rnn": "PackedSequence_",
    "nn.utils.spectral_norm": "SpectralNormLoadStateDictPreHook SpectralNormStateDictHook",
    "nn.functional": "ScalingType SwizzleType assert_int_or_pair grouped_mm scaled_mm scaled_grouped_mm",
    "nn.parallel": "parallel_apply replicate gather scatter DistributedDataParallelCPU",
    "nn.attention": (
        "WARN_FOR_UNFUSED_KERNELS register_flash_attention_impl activate_flash_attention_impl "
        "list_flash_attention_impls current_flash_attention_impl restore_flash_attention_impl"
    ),
    "compiler": (
        "CacheInfo save_cache_artifacts load_cache_artifacts keep_portable_guards_unsafe "
        "skip_guard_on_inbuilt_nn_modules_unsafe skip_guard_on_all_nn_modules_unsafe keep_tensor_guards_unsafe "
        "skip_guard_on_globals_unsafe skip_all_guards_unsafe load_compiled_function"
    ),
    "jit": (
        "run_frozen_optimizations last_executed_optimized_graph CompilationUnit RecursiveScriptClass "
        "jit_module_from_flatbuffer save_jit_module_to_flatbuffer ONNXTracedModule TopLevelTracedModule "
        "export_opnames"
    ),
    "library": "device_types_t NAMELESS_SCHEMA get_kernel",
    "hub": (
        "ENV_GITHUB_TOKEN ENV_TORCH_HOME ENV_XDG_CACHE_HOME DEFAULT_CACHE_DIR VAR_DEPENDENCY MODULE_HUBCONF "
        "READ_DATA_CHUNK"
    ),
    "random": "thread_safe_generator",
    "serialization": (
        "LONG_SIZE INT_SIZE SHORT_SIZE STORAGE_KEY_SEPARATOR STORAGE UNSAFE_MESSAGE MAP_PRIVATE MAP_SHARED skip_data "
        "validate_cuda_device validate_hpu_device default_restore_location normalize_storage_type "
        "storage_to_tensor_type StorageType"
    ),
    "sparse": (
        "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS "
        "to_sparse_semi_structured spsolve"
    ),
    "amp.autocast_mode": "autocast_decorator",
    "amp.grad_scaler": "OptState",
    "accelerator": "Graph get_device_capability",
    "cpu": "Stream Event StreamContext",
}


def _missing() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for module, names in _UNSUPPORTED.items():
        found.setdefault(module, {}).update(
            {name: Unsupported(f"torch.{module}.{name}".replace("..", ".")) for name in names.split()}
        )
    for module, names in _TYPES.items():
        found.setdefault(module, {}).update(dict.fromkeys(names.split(), Any))
    for module, answers in _ANSWERS.items():
        found.setdefault(module, {}).update(answers)
    return found


MISSING = _missing()
