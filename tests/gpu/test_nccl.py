"""NCCL with one rank on a real GPU: every collective, streams, and training on top of them."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as torch
import adjoint.distributed as dist
from adjoint import nn
from adjoint.nn.parallel import DistributedDataParallel as DDP

pytestmark = pytest.mark.gpu

R = dist.ReduceOp
GPU = "cuda"
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
CARRIED = [*FLOATS, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128]


@pytest.fixture(autouse=True, scope="module")
def group() -> Iterator[None]:
    import cupy

    if hasattr(cupy, "simulated"):
        from tests.gpu.simulated import driver, nccl

        nccl.install()
        driver.install()
    dist.init_process_group("nccl")
    yield
    dist.destroy_process_group()


def value(dtype: Any = torch.float32, *shape: int) -> Any:
    return (torch.arange(int(np.prod(shape or (6,)))).reshape(shape or (6,)) % 5).to(dtype).to(GPU)


def same(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype and a.device.type == GPU and torch.equal(a.cpu(), b.cpu()), (a, b)


def on_nccl() -> Any:
    return dist.group.WORLD._nccl[0]


def test_one_process_is_a_world_of_its_own() -> None:
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "nccl")
    assert dist.is_nccl_available() and dist.is_initialized()


@pytest.mark.parametrize("dtype", CARRIED, ids=str)
def test_reductions(dtype: Any) -> None:
    # One rank reduces what it has: whatever the op, the values stay.
    ops = [R.SUM, R.PRODUCT, R.MIN, R.MAX, R.AVG]
    if dtype.is_complex:
        ops = [R.SUM, R.AVG]
    elif dtype is torch.bool:
        ops = [R.SUM, R.PRODUCT, R.MIN, R.MAX]
    for op in ops:
        x = value(dtype)
        dist.all_reduce(x, op)
        same(x, value(dtype))
        dist.reduce(x, 0, op)
        same(x, value(dtype))
        out = torch.zeros(6, dtype=dtype, device=GPU)
        dist.reduce_scatter_tensor(out, value(dtype), op)
        same(out, value(dtype))
        out = torch.zeros(6, dtype=dtype, device=GPU)
        dist.reduce_scatter(out, [value(dtype)], op)
        same(out, value(dtype))
    assert on_nccl().name == "nccl"


@pytest.mark.parametrize("dtype", [*CARRIED, torch.int16], ids=str)
def test_copies(dtype: Any) -> None:
    empty = lambda *shape: torch.zeros(shape, dtype=dtype, device=GPU)
    x = value(dtype, 2, 3)
    dist.broadcast(x, 0)
    same(x, value(dtype, 2, 3))
    out = empty(2, 3)
    dist.all_gather([out], x)
    same(out, x)
    out = empty(2, 3)
    dist.all_gather_into_tensor(out, x)
    same(out, x)
    out = empty(2, 3)
    dist.gather(x, [out], dst=0)
    same(out, x)
    out = empty(2, 3)
    dist.scatter(out, [x], src=0)
    same(out, x)
    out = empty(2, 3)
    dist.all_to_all([out], [x])
    same(out, x)
    out = empty(2, 3)
    dist.all_to_all_single(out, x, [2], [2])
    same(out, x)


def test_messages_to_oneself_in_one_group() -> None:
    xs = [value(torch.float32, 4), value(torch.bfloat16, 3)]
    ys = [torch.zeros_like(x) for x in xs]
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, 0) for x in xs] + [dist.P2POp(dist.irecv, y, 0) for y in ys]
    )
    for work in works:
        work.wait()
    for x, y in zip(xs, ys, strict=True):
        same(x, y)
    with pytest.raises(ValueError, match="Invalid destination rank"):
        dist.send(xs[0], 0)


def test_views_and_empty_tensors() -> None:
    base = value(torch.float32, 4, 4)
    column = base[:, 1]
    dist.all_reduce(column)
    dist.broadcast(base.t(), 0)
    same(base, value(torch.float32, 4, 4))
    assert base._version > 0
    dist.all_reduce(torch.zeros(0, device=GPU))
    out = torch.zeros(0, 3, device=GPU)
    dist.all_gather_into_tensor(out, torch.zeros(0, 3, device=GPU))
    dist.all_to_all_single(torch.zeros(0, device=GPU), torch.zeros(0, device=GPU))
    dist.barrier()


def test_refusals() -> None:
    with pytest.raises(TypeError, match="not supported for NCCL process group"):
        dist.all_reduce(value(torch.int16))
    with pytest.raises(ValueError, match=r"Cannot use ReduceOp.BOR with NCCL"):
        dist.all_reduce(value(torch.int64), R.BOR)
    with pytest.raises(RuntimeError, match="does not support PRODUCT on complex"):
        dist.all_reduce(value(torch.complex64), R.PRODUCT)
    with pytest.raises(TypeError, match="AVG with Boolean"):
        dist.all_reduce(value(torch.bool), R.AVG)
    with pytest.raises(ValueError, match="times as many elements"):
        dist.all_gather_into_tensor(torch.zeros(3, device=GPU), value())
    with pytest.raises(ValueError, match="must be alike"):
        dist.all_gather([torch.zeros(5, device=GPU)], value())
    with pytest.raises(TypeError, match="dtypes must be equal"):
        dist.reduce_scatter_tensor(torch.zeros(6, device=GPU), value(torch.int64))
    with pytest.raises(RuntimeError, match="must name the rank"):
        dist.irecv(value())


def test_handles() -> None:
    x = value()
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    same(work.result()[0], value())
    future = dist.broadcast(x, 0, async_op=True).get_future().then(lambda f: f.value()[0] + 1)
    same(future.wait(), value() + 1)
    out = torch.zeros(6, device=GPU)
    dist.all_gather([out], x, async_op=True).wait()
    same(out, x)


def test_results_are_there_for_the_stream_not_the_process() -> None:
    """Nobody waits for the GPU: the program's stream waits for NCCL's, and NCCL's for the program's."""
    import cupy

    x = torch.ones(1 << 24, device=GPU)
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = torch.zeros(1 << 24, device=GPU)
            out = torch.zeros(1 << 24, device=GPU)
            for _ in range(50):  # the stream is busy when the collective is called
                y += x
            work = dist.all_gather_into_tensor(out, y, async_op=True)
            work.wait()
            pending = not cupy.cuda.get_current_stream().done
            out *= 2
            y.zero_()  # comes after NCCL has read it
            assert out[0].item() == out[-1].item() == 100.0
        assert pending or stream.query()
    torch.cuda.synchronize()


def test_several_collectives_in_a_row_keep_their_order() -> None:
    a, b = value(torch.float32, 1000), torch.zeros(1000, device=GPU)
    works = []
    for _ in range(20):
        works.append(dist.all_reduce(a, async_op=True))
        works.append(dist.all_gather_into_tensor(b, a, async_op=True))
    for work in reversed(works):
        work.wait()
    same(b, value(torch.float32, 1000))


# --- Gradients through collectives --------------------------------------------------------------------


def test_differentiable_collectives() -> None:
    from adjoint.distributed.nn import functional as F

    make = {
        "all_reduce": lambda x: F.all_reduce(x),
        "broadcast": lambda x: F.broadcast(x, 0),
        "reduce": lambda x: F.reduce(x, 0),
        "all_gather": lambda x: F.all_gather(x)[0],
        "reduce_scatter": lambda x: F.reduce_scatter(torch.empty_like(x), [x]),
        "gather": lambda x: F.gather(x)[0],
        "scatter": lambda x: F.scatter([x]),
        "all_to_all": lambda x: F.all_to_all([torch.empty_like(x)], [x])[0],
        "all_to_all_single": lambda x: F.all_to_all_single(torch.empty_like(x), x),
    }
    for name, call in make.items():
        x = value(torch.float32, 2, 3).requires_grad_()
        (call(x) ** 2).sum().backward()
        assert torch.equal(x.grad, 2 * x.detach()), name


def test_sync_batch_norm() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3)
    together = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(norm)).to(GPU)
    x = torch.randn(4, 3, 5, 5)
    a, b = x.clone().requires_grad_(), x.to(GPU).requires_grad_()
    (norm(a) ** 3).sum().backward()
    (together(b) ** 3).sum().backward()
    assert torch.allclose(a.grad, b.grad.cpu(), atol=1e-4)
    assert torch.allclose(norm.running_var, together.running_var.cpu(), atol=1e-6)


# --- Training -----------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(width, width), nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def models(width: int = 16) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = Model(width).to(GPU)
    return model, copy.deepcopy(model)


def loss_of(model: Any, x: Any) -> Any:
    return (model(x).float() ** 2).mean()


def agree(one: Any, other: Any, close: float) -> None:
    for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
        p = p.full_tensor() if hasattr(p, "full_tensor") else p
        error = (p.float() - q.float()).abs().max().item()
        assert error <= close, f"{name} differs by {error}"


@pytest.mark.parametrize("how", ["plain", "views", "bfloat16", "accumulated"])
def test_data_parallel(how: str) -> None:
    model, alone = models()
    wrapped = DDP(model, device_ids=[0], bucket_cap_mb=0.01, gradient_as_bucket_view=how == "views")
    assert len(wrapped.reducer.buckets) > 2
    if how == "bfloat16":
        from adjoint.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        wrapped.register_comm_hook(None, bf16_compress_hook)
    x = torch.randn(8, 16, device=GPU)
    if how == "accumulated":
        with wrapped.no_sync():
            loss_of(wrapped, x).backward()
        loss_of(alone, x).backward()
    loss_of(wrapped, x).backward()
    loss_of(alone, x).backward()
    for (name, p), q in zip(model.named_parameters(), alone.named_parameters(), strict=True):
        assert p.grad.device.type == GPU and p.grad.dtype == torch.float32
        expected = q[1].grad.bfloat16().float() if how == "bfloat16" else q[1].grad
        assert torch.allclose(p.grad, expected, atol=1e-7, rtol=1e-6), name
    wrapped.reducer.remove()


def test_zero_redundancy_optimizer() -> None:
    from adjoint.distributed.optim import ZeroRedundancyOptimizer

    model, alone = models()
    ours = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    theirs = torch.optim.AdamW(alone.parameters(), lr=0.01)
    for _ in range(3):
        x = torch.randn(8, 16, device=GPU)
        for m, o in ((model, ours), (alone, theirs)):
            o.zero_grad()
            loss_of(m, x).backward()
            o.step()
    agree(model, alone, 1e-6)
    ours.consolidate_state_dict()
    saved = ours.state_dict()
    assert saved["state"][0]["exp_avg"].shape == model.first.weight.shape
    ours.load_state_dict(saved)
    assert next(iter(ours._local.state.values()))["exp_avg"].device.type == GPU


def shard(model: Any, **options: Any) -> Any:
    from adjoint.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


@pytest.mark.parametrize("how", ["plain", "parted", "kept", "bfloat16", "clipped", "accumulated"])
def test_fully_shard(how: str) -> None:
    from adjoint.distributed.fsdp import MixedPrecisionPolicy

    model, alone = models()
    options: dict[str, Any] = {}
    if how in ("parted", "kept"):
        options["reshard_after_forward"] = how == "parted"
    if how == "bfloat16":
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    shard(model, **options)
    assert all(p.device.type == GPU for p in model.parameters())
    ours, theirs = torch.optim.AdamW(model.parameters(), lr=0.01), torch.optim.AdamW(alone.parameters(), lr=0.01)
    for _ in range(3):
        x = torch.randn(8, 16, device=GPU)
        ours.zero_grad()
        theirs.zero_grad()
        if how == "accumulated":
            model.set_requires_gradient_sync(False)
            loss_of(model, x).backward()
            model.set_requires_gradient_sync(True)
            loss_of(alone, x).backward()
        loss_of(model, x).backward()
        loss_of(alone, x).backward()
        units = [model._unit, *(b._unit for b in model.blocks)]
        assert not any(flat.resident for unit in units for flat in unit.flats)
        if how == "clipped":
            norm = model.clip_grad_norm_(0.05)
            assert abs(norm.item() - nn.utils.clip_grad_norm_(alone.parameters(), 0.05).item()) < 1e-5
        ours.step()
        theirs.step()
    assert all(p.grad.device.type == GPU for p in model.parameters())
    assert all(s["exp_avg"].device.type == GPU for s in ours.state.values())
    # Adam's first steps have one size whatever the gradient is: rounding may turn the sign of a small one.
    agree(model, alone, 0.07 if how == "bfloat16" else 2e-6)
    with torch.no_grad():
        x = torch.randn(4, 16, device=GPU)
        assert torch.allclose(model(x).float(), alone(x), atol=0.3 if how == "bfloat16" else 2e-5)


def test_fully_sharded_parameters_give_their_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six layers' whole parameters only a few are in memory at a time."""
    from adjoint.distributed.fsdp import fully_shard
    from adjoint.distributed.fsdp.pages import _DevicePages, _driver

    if _driver() is None:
        pytest.skip("the driver cannot part addresses from memory")
    monkeypatch.setattr(_DevicePages, "spared", 0)
    monkeypatch.setattr(_DevicePages, "parting", [])
    layers = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(6))).to(GPU)
    alone = copy.deepcopy(layers)
    for layer in layers:
        fully_shard(layer)
    fully_shard(layers)
    x = torch.randn(4, 1024, device=GPU)
    out = layers(x)
    mapped = [layer._unit.flats[0].pages._handle is not None for layer in layers]
    assert sum(mapped) <= 3, mapped
    out.sum().backward()
    alone(x).sum().backward()
    torch.cuda.synchronize()
    for layer, other in zip(layers, alone, strict=True):
        assert torch.allclose(layer.weight.grad.reshape(1024, 1024), other.weight.grad, atol=1e-4)
    mapped = [layer._unit.flats[0].pages._handle is not None for layer in layers]
    assert sum(mapped) <= 2 and len(_DevicePages.parting) <= 2, mapped
    _DevicePages.spared = 1 << 30  # where memory is plenty, it stays
    for _ in range(2):
        layers(x).sum().backward()
    pages = [weakref.ref(layer._unit.flats[0].pages) for layer in layers]
    assert all(known()._handle is not None for known in pages)
    del layers, layer, out, mapped
    gc.collect()
    assert not any(known() is not None for known in pages)  # and goes with the model


def test_fully_shard_needs_nccl() -> None:
    from adjoint.distributed.fsdp import fully_shard

    mesh = type("Mesh", (), {"get_group": lambda self: dist.new_group([0], backend="mpi")})()
    with pytest.raises(RuntimeError, match="gathered by NCCL"):
        fully_shard(nn.Linear(2, 2).to(GPU), mesh=mesh)


def test_checkpoints(tmp_path: Any) -> None:
    import adjoint.distributed.checkpoint as dcp
    from adjoint.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def trained() -> tuple[Any, Any]:
        model, _ = models()
        shard(model)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    model, optimizer = trained()
    loss_of(model, torch.randn(8, 16, device=GPU)).backward()
    optimizer.step()
    states = get_state_dict(model, optimizer)
    dcp.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=str(tmp_path))
    other, fresh = trained()
    found = dict(zip(("model", "optimizer"), get_state_dict(other, fresh), strict=True))
    dcp.load(found, checkpoint_id=str(tmp_path))
    set_state_dict(other, fresh, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        same(p.detach(), q.detach())
        same(optimizer.state[p]["exp_avg_sq"], fresh.state[q]["exp_avg_sq"])


# --- Beside NCCL --------------------------------------------------------------------------------------


def test_objects_go_through_the_host() -> None:
    told: list[Any] = [None]
    dist.all_gather_object(told, {"loss": 1.5, "weights": value()})
    assert told[0]["loss"] == 1.5 and torch.equal(told[0]["weights"].cpu(), value().cpu())
    dist.broadcast_object_list(told, src=0)
    x = torch.ones(3)  # a tensor on the host, in a group whose backend is NCCL
    dist.all_reduce(x)
    assert x.device.type == "cpu" and x.tolist() == [1, 1, 1]


def test_backends() -> None:
    mixed = dist.new_group([0], backend="cpu:gloo,cuda:nccl")
    assert dist.get_backend_config(mixed) == "cpu:gloo,cuda:nccl"
    host, gpu = torch.ones(3), value()
    dist.all_reduce(host, group=mixed)
    dist.all_reduce(gpu, group=mixed)
    same(gpu, value())
    assert list(mixed._nccl) == [0]
    staged = dist.new_group([0], backend="mpi")  # through memory of the host
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = value(dtype)
        dist.all_reduce(x, group=staged)
        out = torch.zeros(6, dtype=dtype, device=GPU)
        dist.all_gather([out], x, group=staged)
        same(out, value(dtype))
    assert not staged._nccl
    for made in (mixed, staged):
        dist.destroy_process_group(made)


def test_the_default_carries_each_tensor_where_it_is() -> None:
    dist.destroy_process_group()
    dist.init_process_group()
    x = value()
    dist.all_reduce(x)
    dist.all_reduce(torch.ones(2))
    same(x, value())
    assert dist.get_backend_config() == "cpu:mpi,cuda:nccl" and dist.group.WORLD._nccl
    dist.destroy_process_group()
    dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
    assert list(dist.group.WORLD._nccl) == [0] and torch.zeros(1).device.type == "cpu"
