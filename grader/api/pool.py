"""Several Examiners, for programs that grade from many threads or from an event loop."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from grader.api.examiner import Examiner
from grader.api.reports import Report


class ExaminerPool:
    """So many Examiners; who asks while all are busy waits for the next that is free.

        async with ExaminerPool(lambda: Examiner(isolation="require"), size=4) as pool:
            reports = await asyncio.gather(*(pool.agrade(kata, text) for text in texts))

    `make` makes an Examiner, in a thread, when one more is needed: up to `size`, each of which
    keeps a core busy and takes about 1 GB of memory. What Examiner raises comes out of `grade`.
    """

    def __init__(self, make: Callable[[], Examiner] = Examiner, size: int = 1) -> None:
        if size < 1:
            raise ValueError(f"size={size}: a pool needs at least one Examiner")
        self._make, self._size = make, size
        self._idle: queue.LifoQueue[Examiner] = queue.LifoQueue()  # the latest is the warmest
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="examiner")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def grade(self, kata: str, source: str, seed: int | None = None) -> Report:
        """As `Examiner.grade`, from any thread. Raises RuntimeError once the pool is closed."""
        return self._threads.submit(self._grade, kata, source, seed).result()

    async def agrade(self, kata: str, source: str, seed: int | None = None) -> Report:
        """As `grade`, without blocking the event loop.

        Where the task that waits is cancelled, a grade that is under way goes on to its end, and
        one that has not begun never does.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._grade, kata, source, seed)

    def close(self) -> None:
        """Wait for the grades under way, drop those that have not begun, end all processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _grade(self, kata: str, source: str, seed: int | None) -> Report:
        try:
            examiner = self._idle.get_nowait()
        except queue.Empty:
            examiner = self._make()  # no more than there are threads
        try:
            return examiner.grade(kata, source, seed)
        finally:
            self._idle.put(examiner)
