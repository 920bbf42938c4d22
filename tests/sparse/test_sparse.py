"""Sparse tensors: values, gradients and forms as torch has them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint


@pytest.fixture(params=["adjoint", "torch"])
def torch(request: Any) -> Any:
    return pytest.importorskip(request.param, reason="torch is the second opinion on sparse tensors")


PLACES, VALUES = [[0, 1, 1, 1], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0]

OPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "to_dense": lambda t, s, d: s.to_dense(),
    "matmul": lambda t, s, d: s @ d,
    "mm": lambda t, s, d: t.mm(s, d),
    "sparse.mm": lambda t, s, d: t.sparse.mm(s, d),
    "spmm": lambda t, s, d: t.spmm(s, d),
    "mv": lambda t, s, d: s @ d[:, 0],
    "dense @ sparse": lambda t, s, d: t.ones(2, 2) @ s,
    "sparse @ sparse": lambda t, s, d: t.sparse.mm(s, s.t()),
    "add": lambda t, s, d: s + s,
    "sub": lambda t, s, d: s - 2 * s,
    "dense + sparse": lambda t, s, d: t.ones(2, 3) + s,
    "dense += sparse": lambda t, s, d: t.ones(2, 3).add_(s, alpha=2).sub_(s),
    "scaled": lambda t, s, d: 3 * s / 2,
    "product": lambda t, s, d: s.coalesce() * s.coalesce(),
    "times dense": lambda t, s, d: s.coalesce() * t.full((2, 3), 2.0),
    "neg": lambda t, s, d: -s,
    "t": lambda t, s, d: s.t(),
    "T": lambda t, s, d: s.T,
    "mT": lambda t, s, d: t.arange(12.0).reshape(2, 3, 2).to_sparse().mT,
    "transpose": lambda t, s, d: s.transpose(0, 1),
    "sum": lambda t, s, d: t.sparse.sum(s),
    "sum 0": lambda t, s, d: t.sparse.sum(s, 0),
    "sum 1": lambda t, s, d: t.sparse.sum(s, 1),
    "method sum": lambda t, s, d: s.sum(),
    "softmax": lambda t, s, d: t.sparse.softmax(s, 1),
    "log_softmax": lambda t, s, d: t.sparse.log_softmax(s, 1).coalesce().values(),
    "mask": lambda t, s, d: t.arange(6.0).reshape(2, 3).sparse_mask(s.coalesce()),
    "sparse.addmm": lambda t, s, d: t.sparse.addmm(t.ones(2, 2), s, d),
    "addmm": lambda t, s, d: t.addmm(t.ones(2, 2), s, d, beta=2, alpha=3),
    "cat": lambda t, s, d: t.cat([s, s], 1),
    "index_select": lambda t, s, d: s.index_select(0, t.tensor([1, 0])),
    "row": lambda t, s, d: s[1],
    "abs": lambda t, s, d: (-s).coalesce().abs(),
    "sqrt": lambda t, s, d: s.sqrt(),
    "pow": lambda t, s, d: s.coalesce().pow(2),
    "norm": lambda t, s, d: s.coalesce().norm(),
    "double": lambda t, s, d: s.double(),
    "csr": lambda t, s, d: s.to_sparse_csr(),
    "csr @": lambda t, s, d: s.to_sparse_csr() @ d,
    "csr to coo": lambda t, s, d: s.to_sparse_csr().to_sparse_coo(),
    "crow": lambda t, s, d: s.to_sparse_csr().crow_indices(),
    "linear": lambda t, s, d: t.nn.functional.linear(s, t.ones(4, 3)),
    "bmm": lambda t, s, d: t.bmm(t.ones(2, 2, 3).to_sparse(), t.ones(2, 3, 2)),
    "zeros_like": lambda t, s, d: t.zeros_like(s),
}


def answer(torch: Any, name: str) -> Any:
    s = torch.sparse_coo_tensor(torch.tensor(PLACES), torch.tensor(VALUES), (2, 3))
    out = OPS[name](torch, s, torch.arange(6.0).reshape(3, 2))
    plain = out.to_dense() if out.layout is not torch.strided else out
    return str(out.layout).rpartition(".")[2], plain.numpy()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", OPS)
def test_ops_as_in_torch(name: str) -> None:
    theirs = answer(pytest.importorskip("torch", reason="torch is the second opinion on sparse tensors"), name)
    layout, values = answer(adjoint, name)
    assert layout == theirs[0]
    np.testing.assert_allclose(values, theirs[1], rtol=1e-6)
    assert values.dtype == theirs[1].dtype


def test_what_it_says_of_itself(torch: Any) -> None:
    s = torch.sparse_coo_tensor(PLACES, VALUES)
    assert isinstance(s, torch.Tensor) and torch.is_tensor(s)
    assert s.is_sparse and s.layout is torch.sparse_coo and not s.is_coalesced()
    assert (tuple(s.shape), s.ndim, s.dim(), s.size(1), s.numel(), s._nnz()) == ((2, 3), 2, 2, 3, 6, 4)
    assert (s.sparse_dim(), s.dense_dim(), s.dtype, s.device.type) == (2, 0, torch.float32, "cpu")
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        s.indices()
    whole = s.coalesce()
    assert whole.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert whole.values().tolist() == [3.0, 4.0, 6.0]
    assert not torch.ones(2).is_sparse
    with pytest.raises(NotImplementedError):
        s.exp()
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        s.numpy()
    assert torch.sparse_coo_tensor((2, 3))._nnz() == 0
    both = torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 2), (3, 2))
    assert both.to_dense().tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_text() -> None:
    s = adjoint.sparse_coo_tensor(PLACES, VALUES).coalesce()
    assert repr(s) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 6.]),\n       size=(2, 3), nnz=3, layout=adjoint.sparse_coo)"
    )


def test_gradients(torch: Any) -> None:
    v = torch.tensor(VALUES, requires_grad=True)
    s = torch.sparse_coo_tensor(torch.tensor(PLACES), v, (2, 3))
    d = torch.arange(6.0).reshape(3, 2).requires_grad_()
    assert s.requires_grad
    (torch.sparse.mm(s, d) ** 2).sum().backward()
    assert v.grad.tolist() == [246.0, 68.0, 532.0, 532.0]
    assert d.grad.tolist() == [[192.0, 272.0], [0.0, 0.0], [360.0, 498.0]]
    leaf = torch.sparse_coo_tensor(torch.tensor(PLACES), torch.tensor(VALUES), (2, 3), requires_grad=True)
    torch.sparse.mm(leaf, d.detach()).sum().backward()
    assert leaf.is_leaf and leaf.grad.is_sparse
    x = torch.ones(2, 3, requires_grad=True)
    (x.sparse_mask(s.detach().coalesce()).to_dense() * 2).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, 2.0], [2.0, 0.0, 2.0]]


def test_gradients_against_differences() -> None:
    d = adjoint.rand(3, 2, dtype=adjoint.float64, requires_grad=True)

    def product(v: Any, d: Any) -> Any:
        return adjoint.sparse.mm(adjoint.sparse_coo_tensor(PLACES, v, (2, 3)), d)

    v = adjoint.rand(4, dtype=adjoint.float64, requires_grad=True)
    assert adjoint.autograd.gradcheck(product, (v, d))
    assert adjoint.autograd.gradgradcheck(product, (v, d))

    def softened(v: Any) -> Any:
        return adjoint.sparse.softmax(adjoint.sparse_coo_tensor(PLACES, v, (3, 3)), 1).to_dense()

    assert adjoint.autograd.gradcheck(softened, v)


def trained(torch: Any, make: Callable[[Any, Any], Any]) -> tuple[Any, ...]:
    table = torch.nn.Embedding(5, 2, sparse=True)
    torch.nn.init.ones_(table.weight)
    optimizer = make(torch.optim, table.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        (table(torch.tensor([1, 3, 1])) ** 2).sum().backward()
        g = table.weight.grad
        optimizer.step()
    return g.is_sparse, g.to_dense().numpy(), table.weight.detach().numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda optim, p: optim.SGD(p, lr=0.1),
        lambda optim, p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda optim, p: optim.SparseAdam(list(p), lr=0.1),
        lambda optim, p: optim.Adagrad(p, lr=0.1),
    ],
    ids=["sgd", "momentum", "sparse adam", "adagrad"],
)
def test_embeddings_train_with_sparse_gradients(make: Callable[[Any, Any], Any]) -> None:
    theirs = trained(pytest.importorskip("torch", reason="torch is the second opinion on optimizers"), make)
    ours = trained(adjoint, make)
    assert ours[0]
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-5, atol=1e-6)


def test_sparse_gradients_add_up(torch: Any) -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    table(torch.tensor([1, 2])).sum().backward()
    assert table.weight.grad.is_sparse
    assert table.weight.grad.to_dense()[:, 0].tolist() == [0.0, 2.0, 1.0, 0.0, 0.0]
    bag = torch.nn.EmbeddingBag(5, 2, mode="sum", sparse=True)
    bag(torch.tensor([[1, 3]])).sum().backward()
    assert bag.weight.grad.is_sparse
    assert bag.weight.grad.to_dense()[:, 0].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]
    optimizer = torch.optim.Adam(table.parameters())
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"):
        optimizer.step()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_compressed_rows(torch: Any) -> None:
    rows = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 3]), torch.tensor([2, 0, 2]), torch.tensor([3.0, 4.0, 5.0]), (2, 3)
    )
    assert rows.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    assert rows.layout is torch.sparse_csr
    assert rows.crow_indices().tolist() == [0, 1, 3]
    assert rows.col_indices().tolist() == [2, 0, 2]
    assert (rows @ torch.ones(3)).tolist() == [3.0, 9.0]


@pytest.mark.filterwarnings("ignore:Sparse")
def test_compressed_columns_and_blocks(torch: Any) -> None:
    dense = torch.tensor([[1.0, 0, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0], [0, 0, 4, 5]])
    columns = dense.to_sparse_csc()
    assert (columns.ccol_indices().tolist(), columns.row_indices().tolist()) == ([0, 2, 2, 3, 5], [0, 2, 3, 0, 3])
    assert columns.values().tolist() == [1.0, 3.0, 4.0, 2.0, 5.0] and columns.t().layout is torch.sparse_csr
    blocks = dense.to_sparse_bsr((2, 2))
    assert (blocks._nnz(), blocks.crow_indices().tolist(), blocks.col_indices().tolist()) == (
        4,
        [0, 2, 4],
        [0, 1, 0, 1],
    )
    assert blocks.values()[3].tolist() == [[0.0, 0.0], [4.0, 5.0]]
    for form in (columns, blocks, dense.to_sparse_bsc((2, 2))):
        assert torch.equal(form.to_dense(), dense)
    for form in (columns, blocks):
        assert torch.equal(form @ torch.ones(4, 2), dense @ torch.ones(4, 2))
    again = torch.sparse_bsr_tensor(blocks.crow_indices(), blocks.col_indices(), blocks.values(), (4, 4))
    assert torch.equal(again.to_dense(), dense)
    with pytest.raises(RuntimeError, match="must be divisible by given blocksize"):
        dense.to_sparse_bsr((3, 2))
    with pytest.raises(RuntimeError, match="expected sparse column compressed tensor layout but got"):
        blocks.ccol_indices()


def test_copies_and_pickles() -> None:
    s = adjoint.sparse_coo_tensor(PLACES, VALUES)
    for other in (copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert other.is_sparse
        assert other.to_dense().equal(s.to_dense())
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        adjoint.sparse_coo_tensor(PLACES, VALUES, (1, 3))
