"""The life of one request. The only writer of request, event and audit rows; knows no transport and no tool."""
