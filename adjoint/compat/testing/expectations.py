"""What a test expects besides equal values: a text, an exception's text, a program that ends well, no lost errors."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .contexts import DeterministicGuard

__all__ = ["AssertRaisesContextIgnoreNotImplementedError", "Expectations", "munge_exc"]


class AssertRaisesContextIgnoreNotImplementedError(unittest.case._AssertRaisesContext[Any]):
    """A context that leaves a test out where it raises NotImplementedError in the place of what is expected."""

    def __exit__(self, exc_type: Any, exc_value: Any, tb: Any) -> bool:
        """Judge what was raised."""
        if exc_type is not None and issubclass(exc_type, NotImplementedError):
            raise unittest.SkipTest(f"not_implemented: {exc_value}")
        return bool(super().__exit__(exc_type, exc_value, tb))


def munge_exc(
    e: BaseException,
    *,
    suppress_suffix: bool = True,
    suppress_prefix: bool = True,
    file: str | None = None,
    skip: int = 0,
    strip_carets: bool = True,
    strip_stack_attribution: bool = True,
) -> str:
    """Return the text of an exception without numbers of lines and spaces at their ends."""
    text = re.sub(r"line \d+", "line N", str(e))
    text = re.sub(r"\.py:\d+", ".py:N", text)
    if strip_carets:
        text = re.sub(r"\n[ ~^]*[~^][ ~^]*(?=\n|\Z)", "", text)
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


def _without(pattern: str, text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not re.match(pattern, line))


class Expectations(unittest.TestCase):
    """Assertions about texts, exceptions and programs."""

    __test__ = False

    def assertExpectedInline(
        self, actual: str, expect: str, skip: int = 0, ignore_comments: bool = False, ignore_empty_lines: bool = False
    ) -> None:
        """Fail unless a text is what the test says, without regard to how far the whole is indented."""
        if ignore_comments:
            actual, expect = _without(r"\s*#", actual), _without(r"\s*#", expect)
        if ignore_empty_lines:
            actual, expect = _without(r"\s*$", actual), _without(r"\s*$", expect)
        self.assertMultiLineEqual(expect, str(actual))

    def assertExpectedRaisesInline(
        self, exc_type: Any, callable: Callable[..., Any], expect: str, *args: Any, **kwargs: Any
    ) -> None:
        """Fail unless a call raises an exception with a text."""
        with self.assertRaises(exc_type) as raised:
            callable(*args, **kwargs)
        self.assertExpectedInline(str(raised.exception), expect)

    def assertExpectedInlineMunged(
        self, exc_type: Any, callable: Callable[[], Any], expect: str, *, skip: int = 0, suppress_suffix: bool = True,
        post_munge: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        """Fail unless a call raises an exception with a text, numbers of lines aside."""
        with self.assertRaises(exc_type) as raised:
            callable()
        text = munge_exc(raised.exception)
        self.assertExpectedInline(post_munge(text) if post_munge is not None else text, expect)

    def assertExpected(self, s: str, subname: str | None = None) -> None:
        """Fail unless a text is what a file in the folder ``expect``, beside the test, says."""
        module, _, test = self.id().rpartition(".")
        home = Path(sys.modules[type(self).__module__].__file__ or ".").parent / "expect"
        name = f"{module.rpartition('.')[2]}.{test}" + (f"-{subname}" if subname else "")
        file = home / f"{name}.expect"
        if not file.exists():
            raise RuntimeError(f"I got this output for {name}, but there is no file {file} to compare it with:\n{s}")
        self.assertMultiLineEqual(file.read_text(), s)

    def assertExpectedRaises(self, exc_type: Any, callable: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fail unless a call raises an exception whose text a file says."""
        subname = kwargs.pop("subname", None)
        with self.assertRaises(exc_type) as raised:
            callable(*args, **kwargs)
        self.assertExpected(str(raised.exception), subname)

    def assertNoUnraisable(self, callable: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fail if an exception is lost during a call, as one in ``__del__`` is."""
        lost: list[Any] = []
        before, sys.unraisablehook = sys.unraisablehook, lost.append
        try:
            callable(*args, **kwargs)
        finally:
            sys.unraisablehook = before
        self.assertFalse(lost, f"exceptions were lost: {lost}")

    def check_nondeterministic_alert(self, fn: Callable[[], Any], caller_name: str, should_alert: bool = True) -> None:
        """Fail unless a call is refused, or runs, where only deterministic algorithms are allowed."""
        told = f"{caller_name} does not have a deterministic implementation, but you set"
        with DeterministicGuard(True):
            if should_alert:
                with self.assertRaisesRegex(RuntimeError, told):
                    fn()
            else:
                fn()
        with DeterministicGuard(True, warn_only=True), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            fn()
        self.assertEqual(any(re.search(told, str(w.message)) for w in heard), should_alert)

    @staticmethod
    def run_process_no_exception(code: str, env: dict[str, str] | None = None) -> tuple[bytes, bytes]:
        """Run a program in a separate process, and return what it prints."""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.decode()}")
        return done.stdout, done.stderr

    @classmethod
    def runWithPytorchAPIUsageStderr(cls, code: str) -> str:
        """Run a program, and return what it prints as errors."""
        return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stderr.decode()
