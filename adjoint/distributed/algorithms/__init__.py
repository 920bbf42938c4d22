"""Ways of working together: uneven inputs, and what is sent in place of gradients."""

from __future__ import annotations

from . import join
