"""FastMCP's client, in both eras. It has no `subscriptions/listen`."""

import asyncio
from typing import Any

import mcp_types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from lines import Action, Report, connection, serve
from python import MODE, answer, answer_to, cancelled, on_message, text_of


async def on_question(
    message: str, kind: type | None, params: mcp_types.ElicitRequestParams, context: object
) -> mcp_types.ElicitResult:
    return answer_to(params)


client = Client(
    connection.get("url") or StdioTransport(**connection["server"]),
    mode=MODE,
    elicitation_handler=on_question,
    message_handler=on_message,
)


async def list_all(report: Report) -> dict[str, list[str]]:
    return {
        "tools": [tool.name for tool in await client.list_tools()],
        "resources": [resource.uri for resource in await client.list_resources()],
        "templates": [template.uri_template for template in await client.list_resource_templates()],
        "prompts": [prompt.name for prompt in await client.list_prompts()],
    }


async def call(report: Report, tool: str, arguments: dict[str, Any]) -> dict[str, object]:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        report(progress=progress, total=total, message=message)

    result = await client.call_tool(tool, arguments, progress_handler=on_progress, raise_on_error=False)
    return {"text": text_of(result.content), "structured": result.structured_content, "isError": result.is_error}


async def read(report: Report, uri: str) -> str:
    return text_of(await client.read_resource(uri))


async def get_prompt(report: Report, name: str, arguments: dict[str, str]) -> str:
    [message] = (await client.get_prompt(name, arguments)).messages
    return text_of([message.content])


async def complete(report: Report, prompt: str, argument: dict[str, str]) -> list[str]:
    return (await client.complete(mcp_types.PromptReference(name=prompt), argument)).values


async def subscribe(report: Report, uri: str) -> None:
    await client.session.subscribe_resource(uri)
    report(subscribed=True)
    await cancelled()


ACTIONS: dict[str, Action] = {
    "list": list_all,
    "call": call,
    "read": read,
    "prompt": get_prompt,
    "complete": complete,
    "subscribe": subscribe,
    "answer": answer,
}


async def main() -> None:
    async with client:
        assert client.protocol_version
        await serve(client.protocol_version, ACTIONS)
    await client.close()  # the end of the block does not end the server that the client started


asyncio.run(main())
