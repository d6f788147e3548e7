"""Where agents connect: HTTP, SSE and WebSocket, all behind one relay."""
