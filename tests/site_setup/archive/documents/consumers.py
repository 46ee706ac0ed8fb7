from channels.generic.websocket import AsyncWebsocketConsumer


class Echo(AsyncWebsocketConsumer):
    async def receive(self, text_data=None, bytes_data=None):
        await self.send(text_data)
