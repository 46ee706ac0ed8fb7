"""One request that is being served, over HTTP or stdio.

In reading order:

    exchange           the request with its caller and its response, which every handler receives
    responder          the interface for sending messages to the client
    capabilities       the capabilities that the server advertises
    callers            authenticates the caller, and confirms them while a response stays open
    failures           turns exceptions into errors for the client, and logs them
    input_responses    checks `inputResponses`, and publishes a request whose questions are answered
    request_state      seals and verifies `requestState`
"""
