"""`mcp` 2.x, of both eras."""

import asyncio
from typing import Any

import mcp_types
from lines import Report, connection, serve, tell
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.subscriptions import ResourceUpdated
from python import MODE, MODERN, answer, answer_to, cancelled, on_message, told


async def on_question(context: object, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
    return answer_to(params)


client = Client(
    connection.get("url") or StdioServerParameters(**connection["server"]),
    mode=MODE,
    elicitation_callback=on_question,
    message_handler=on_message,
)


async def list_all(report: Report) -> dict[str, list[str]]:
    templates = (await client.list_resource_templates()).resource_templates
    return {
        "tools": [tool.name for tool in (await client.list_tools()).tools],
        "resources": [resource.uri for resource in (await client.list_resources()).resources],
        "templates": [template.uri_template for template in templates],
        "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
    }


async def call(report: Report, tool: str, arguments: dict[str, Any]) -> dict[str, object]:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        report(progress=progress, total=total)

    result = await client.call_tool(tool, arguments, progress_callback=on_progress)
    return told(result.content, result.structured_content, result.is_error)


async def subscribe(report: Report, uri: str) -> None:
    if MODERN:
        async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
            report(subscribed=True)
            async for event in subscription:
                tell(changed=event.uri if isinstance(event, ResourceUpdated) else "tools")
    else:
        await client.subscribe_resource(uri)
        report(subscribed=True)
        await cancelled()


async def main() -> None:
    async with client:
        actions = {"list": list_all, "call": call, "subscribe": subscribe, "answer": answer}
        await serve(client.protocol_version, actions)


asyncio.run(main())
