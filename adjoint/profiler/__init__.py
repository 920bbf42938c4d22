"""Profiles: how long each op takes forward and backward, how much memory, in which module, on which line."""

from .events import EventList, FunctionEvent, FunctionEventAvg
from .profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from .recording import record_function

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
