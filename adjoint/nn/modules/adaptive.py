"""Softmax over very many classes, rare ones in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._typing import Tensor
from ...ops.create import empty, zeros
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


_ASMoutput.__name__ = "_ASMoutput"


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of very many classes: frequent ones first, rarer ones in cheaper clusters (Grave et al., 2017).

    Classes are numbered by falling frequency; `cutoffs` say where clusters begin, and each is `div_value` times
    narrower than the one before.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if cutoffs != sorted(set(cutoffs)) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1 or not whole:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, device=device, dtype=dtype),
                    Linear(width, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Initialise all weights again."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log probability of each target, and the mean loss."""
        batched = target_.dim() > 0
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != (2 if batched else 1):
            need = "2D input tensor with 1D targets" if batched else "1D input tensor with 0D targets"
            raise RuntimeError(f"{'1D' if batched else '0D'} target tensor expects {need[:2]} input tensors, but found "
                               f"inputs with size {input_.size()}")  # fmt: skip
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        bounds = [0, *self.cutoffs]
        if not bool(((target >= 0) & (target < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        output = zeros(target.shape, dtype=input.dtype, device=input.device)
        chosen = target.clone()  # the class of the head that each sample belongs to
        for i in range(1, len(bounds) - 1):
            rows = ((target >= bounds[i]) & (target < bounds[i + 1])).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            below = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
            relative = (target.index_select(0, rows) - bounds[i]).unsqueeze(1)
            output = output.index_copy(0, rows, below.gather(1, relative).squeeze(1))
            chosen = chosen.index_fill(0, rows, self.shortlist_size + i - 1)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, chosen.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        out = empty((head_output.size(0), self.n_classes), dtype=head_output.dtype, device=head_output.device)
        head = F.log_softmax(head_output, dim=1)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, (start, stop) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            below = F.log_softmax(self.tail[i](input), dim=1)
            out[:, start:stop] = below + head[:, self.shortlist_size + i].unsqueeze(1)
        return out

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most likely class of each sample."""
        head = self.head(input)
        out = head.argmax(dim=1)
        below = out >= self.shortlist_size
        if not bool(below.any()):
            return out
        return self._get_full_log_prob(input, head).argmax(dim=1).where(below, out)
