"""Threads, forks, spawned processes and signals: no update is lost, no child hangs, no signal waits.

Every kind of case runs in a separate process, for a share of the time, round after round; the parent counts what it
says, and a watchdog dumps the stacks of a process in which nothing has moved. A thread case has 16 threads that start
at once; `calls` of each are one round. `lost` are updates that did not arrive, `late` signals whose handler ran more
than 0.1 s after that of a plain Python loop would have.

    python -m gates.threads --minutes 1 --seed 0
    python -m gates.threads --only forks --seed 3
"""
