"""The lines with which a measuring tool shows that it is still running."""

import time


class Steps:
    """Appends lines `"<unix time> <step number>\\n"` to a file, numbered from 0. Closes the file after each line.

    `seconds` is the whole duration, and `step` the time between two lines. The caller must wait for that time.
    """

    def __init__(self, path: str, seconds: float, step: float) -> None:
        self.path = path
        self.step = step
        self.total = round(seconds / step)
        self._written: list[int] = []
        """The length of each line."""

    @property
    def taken(self) -> int:
        return len(self._written)

    @property
    def remain(self) -> bool:
        return self.taken < self.total

    @property
    def summary(self) -> str:
        return f"{self.taken} steps"

    def take(self) -> None:
        line = f"{time.time()!r} {self.taken}\n".encode()
        with open(self.path, "ab", buffering=0) as file:
            # One call writes and counts. An interrupt falls before both or after both, so that no number occurs twice.
            self._written.extend(map(file.write, (line,)))


def append(path: str, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)
