"""`tools/call` in a legacy session over stdio: its client is asked, and answers, on the one channel.

Source: 2025-11-25 basic/utilities/cancellation, client/elicitation, client/sampling, client/roots.
"""

from collections.abc import Mapping
from typing import Any

from mcp_app.lifecycle.observation import Observed
from mcp_app.protocol.requests import CallTool
from mcp_app.transport import call_stream
from mcp_app.transport.legacy.questions import AskingCall
from mcp_app.transport.stdio.exchange import LegacyStdioExchange


class ConnectionCall(AskingCall):
    """A call whose client is still there when it has cancelled: nobody waits for its answers, and it is told so."""

    def __init__(self, exchange: LegacyStdioExchange) -> None:
        super().__init__(exchange)
        self._exchange: LegacyStdioExchange = exchange
        assert exchange.session is not None, "what comes before initialize is refused"
        self._asking = exchange.session.asking

    async def run(self, call: CallTool) -> None:
        try:
            await super().run(call)
        finally:
            if (request := await self._stored()) is not None:
                self._asking.discard(request.pk)

    async def _ask(self, observed: Observed, questions: Mapping[str, Any]) -> bool:
        self._asking.add(observed.request_id)
        return await super()._ask(observed, questions)

    async def _give_up(self, error: BaseException) -> None:
        await super()._give_up(error)
        request = await self._stored()
        if request is None or not self._exchange.cancelled:
            return
        for message in await self._withdrawals(request.pk):
            await self._exchange.peer.writer.write(message)


async def serve(exchange: LegacyStdioExchange) -> None:
    """Serve one `tools/call`."""
    await call_stream.serve(exchange, lambda _: ConnectionCall(exchange))
