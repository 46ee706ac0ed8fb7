"""The lines by which a measuring tool shows that it is still running."""

import time


class Steps:
    """Appends `"<unix time> <step number>\\n"` to a file, numbered from 0, the file closed after each.

    `seconds` is the whole duration, `step` the time between two lines, which the caller lets pass.
    """

    def __init__(self, path: str, seconds: float, step: float) -> None:
        self.path = path
        self.step = step
        self.total = round(seconds / step)
        self.taken = 0

    @property
    def remain(self) -> bool:
        return self.taken < self.total

    @property
    def summary(self) -> str:
        return f"{self.taken} steps"

    def take(self) -> None:
        append(self.path, f"{time.time()!r} {self.taken}\n")
        self.taken += 1


def append(path: str, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)
