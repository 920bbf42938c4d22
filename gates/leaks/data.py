"""Data, files, other processes."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from typing import Any

from .features import feature, leaf, model_of, raises


@feature
def loaders(T: Any) -> None:
    """Data loaded in this process."""
    data = T.utils.data
    loader = data.DataLoader(data.TensorDataset(T.arange(6), T.ones(6, 2)), batch_size=2, shuffle=True)
    for _ in loader:
        pass
    next(iter(loader))
    data.random_split(range(6), [2, 4])


@feature
def workers(T: Any) -> None:
    """Data loaded by two workers."""
    data = T.utils.data
    for _ in data.DataLoader(data.TensorDataset(T.arange(4)), batch_size=2, num_workers=2):
        pass


@feature
def files(T: Any) -> None:
    """Saved and loaded state."""
    m = model_of(T)
    optimizer = T.optim.Adam(m.parameters())
    m(T.ones(2, 3)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    T.save({"model": m.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    m.load_state_dict(T.load(file)["model"])
    with raises(Exception):
        T.load(io.BytesIO(b"nothing"))


@feature
def copies(T: Any) -> None:
    """Copies and pickles."""
    x = leaf(T)
    m = model_of(T)
    copy.deepcopy([x, x.detach()[1:], m])
    copy.copy(m)
    pickle.loads(pickle.dumps([x, m]))  # noqa: S301 - our own


@feature
def threads(T: Any) -> None:
    """A pass in a thread."""

    def work() -> None:
        with T.no_grad():
            leaf(T) * 2
        (leaf(T) * 2).sum().backward()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@feature
def futures(T: Any) -> None:
    """Futures."""
    future = T.futures.Future()
    after = future.then(lambda f: f.value() + 1)
    future.set_result(1)
    assert after.wait() == 2
    T.futures.wait_all([future])
