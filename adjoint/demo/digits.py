"""Drawn digits to learn from: no download, and as many as one likes."""

from __future__ import annotations

from typing import Any

from ..nn.functional import max_pool2d
from ..ops.create import tensor, zeros
from ..ops.piecewise import where
from ..ops.random import rand, randint, randn

__all__ = ["digits"]

_FONT = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ....#
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .###.
"""


def digits(count: int) -> tuple[Any, Any]:
    """Draw digits of 12 x 12 points, of varying place, stroke and brightness, with noise.

    Returns
    -------
    tuple
        The images, ``[count, 1, 12, 12]``, and which digits they are, ``[count]``.
    """
    rows = [line.split() for line in _FONT.strip().splitlines()]
    glyphs = tensor([[[float(c == "#") for c in row[d]] for row in rows] for d in range(10)])
    labels = randint(0, 10, (count,))
    images = zeros(count, 1, 12, 12)
    places = randint(1, 4, (count, 2)).tolist()
    for image, label, (top, left) in zip(images, labels.tolist(), places, strict=True):
        image[0, top : top + 7, left : left + 5] = glyphs[label]
    thick = max_pool2d(images, 2, stride=1, padding=1)[..., :12, :12]
    images = where(rand(count, 1, 1, 1) < 0.3, thick, images)
    return images * (0.6 + 0.4 * rand(count, 1, 1, 1)) + 0.15 * randn(count, 1, 12, 12), labels
