"""Untrusted files, which `load` must refuse safely, and saved files, which `save` must not lose.

Reading: valid files of every format that `load` knows, and the attacks of tests/serialization/hostile.py, are changed
at the level of pickle opcodes, zip records, headers, tensor metadata and bytes (tests/serialization/changes.py), then
loaded in a child process. Wrong is: code run, a module imported or a file opened; an array that is not inside its
storage, or a write beyond one (canaries stand around every buffer); an existing dtype, class or table changed; any
error but `FileFormatError`; memory or time out of proportion (`most_memory`, `most_seconds`). A child that dies counts
as crashed.

Writing: `save` over an old file is killed, interrupted, run out of disk, raced, refused. Lost is: a file that is
neither the old nor the new one, or something left beside it after the next save.

    python -m gates.files --minutes 1 --seed 0
    python -m gates.files --case 4711        (one case again, with its file in /tmp/case-4711)
"""
