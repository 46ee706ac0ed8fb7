"""Helpers for tests of the async pool: coroutines that wait, block the loop or ignore cancellation, and crowds."""

from tests.execution import driver
from tests.execution.site import Site, eventually

PATIENCE = 90.0
WAITING = """
    async def main():
        try:
            open(READY, "w").close()
            await asyncio.sleep(60)
        finally:
            ctx.partial_result = "cleaned"
"""
HOLDING = """
    async def main():
        open(READY, "w").close()
        time.sleep({seconds})
        await asyncio.sleep(60)
"""
SPINNING = """
    async def main():
        open(READY, "w").close()
        while True:
            sum(range(100))
"""
SWALLOWING = """
    async def main():
        open(READY, "w").close()
        while True:
            try:
                await asyncio.sleep(0.02)
            except BaseException:
                pass
"""
ASLEEP = """
async def main():
    await asyncio.sleep(120)
"""


def begin_crowd(site: Site, calls: int, **changes: object) -> list[str]:
    """Begin this many calls that wait as coroutines, and wait until all of them run."""
    crowd: list[str] = site.ask(driver.submit_many, calls, "python_async", {"code": ASLEEP}, **changes)
    eventually(lambda: site.ask(driver.statuses, crowd) == {"running": calls}, "that all of them run", within=PATIENCE)
    return crowd


def ended(site: Site, crowd: list[str]) -> dict[tuple[str, str], int]:
    """Wait until all calls have ended. Return how many ended with each status and cause."""
    eventually(lambda: not site.ask(driver.statuses, crowd).get("running"), "the end of all of them", within=PATIENCE)
    found: dict[tuple[str, str], int] = site.ask(driver.ends, crowd)
    return found
