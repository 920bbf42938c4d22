"""Meshes: processes in an array, with a group for each row and column."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.create import finish
from .groups import get_rank, get_world_size, is_member, new_group, resolved

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Processes in an array of ranks; those that differ in one coordinate only form a group.

    Every process makes the same meshes, in the same order.
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: tuple[str, ...] | None = None, groups: Any = None
    ) -> None:
        self.device_type = device_type
        self._ranks = np.asarray(getattr(mesh, "array", mesh))
        self.mesh_dim_names = mesh_dim_names
        self._groups = list(groups) if groups is not None else [self._along(dim) for dim in range(self._ranks.ndim)]

    def _along(self, dim: int) -> Any:
        rows = np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim])
        if rows.shape == (1, get_world_size()) and list(rows[0]) == list(range(get_world_size())):
            return resolved(None)
        made = [new_group([int(rank) for rank in row]) for row in rows]
        own = [group for group in made if is_member(group)]
        return own[0] if own else None

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._ranks.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of processes along each dimension."""
        return tuple(self._ranks.shape)

    @property
    def mesh(self) -> Any:
        """The ranks, as a tensor."""
        return finish(self._ranks.astype(np.int64))

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of processes, in all or along a dimension."""
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim])

    def _dim(self, dim: int | str | None) -> int:
        if dim is None:
            if self.ndim != 1:
                raise RuntimeError(f"the mesh has {self.ndim} dimensions: name one of {self.mesh_dim_names}")
            return 0
        if isinstance(dim, str):
            if dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"Invalid mesh_dim_name {dim!r}: the mesh has {self.mesh_dim_names}")
            return (self.mesh_dim_names or ()).index(dim)
        return dim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Return the group of this process along a dimension."""
        return self._groups[self._dim(mesh_dim)]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of this process along a dimension."""
        return get_rank(self.get_group(mesh_dim))

    def get_rank(self) -> int:
        """Return the number of this process among all."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Return the coordinates of this process, or None if it is not in the mesh."""
        found = np.argwhere(self._ranks == get_rank())
        return [int(n) for n in found[0]] if len(found) else None

    def __getitem__(self, name: str) -> DeviceMesh:
        dim, place = self._dim(name), self.get_coordinate()
        assert place is not None
        index: Any = tuple(slice(None) if d == dim else place[d] for d in range(self.ndim))
        return DeviceMesh(self.device_type, self._ranks[index], mesh_dim_names=(name,), groups=[self._groups[dim]])

    def __repr__(self) -> str:
        return f"DeviceMesh({self._ranks.tolist()}, mesh_dim_names={self.mesh_dim_names})"


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Arrange all processes in an array, with groups along its dimensions.

    Parameters
    ----------
    device_type : str
        ``"cpu"`` or ``"cuda"``; saved as an attribute.
    mesh_shape : tuple of int
        Shape of the array; its product must be the number of processes.
    mesh_dim_names : tuple of str, optional
        Names of its dimensions, for ``mesh["name"]``.
    backend_override : dict, optional
        Accepted for torch's sake: all groups have the backend of `init_process_group`.

    Returns
    -------
    DeviceMesh
        The array of ranks, in order; ``get_group(dim)`` is this process's group along a dimension.

    Raises
    ------
    RuntimeError
        If there are more or fewer processes than the shape has places.

    Examples
    --------
    Eight processes, data parallel in two rows of four that share a model::

        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model"))
        DistributedDataParallel(model, process_group=mesh["data"].get_group())

    A job of one process:

    >>> import adjoint.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.device_mesh.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    DeviceMesh([[0]], mesh_dim_names=('data', 'model'))
    >>> dist.destroy_process_group()
    """
    count = int(np.prod(mesh_shape))
    if count != get_world_size():
        raise RuntimeError(f"a mesh of {mesh_shape} has {count} places, and there are {get_world_size()} processes")
    return DeviceMesh(device_type, np.arange(count).reshape(mesh_shape), mesh_dim_names=mesh_dim_names)
