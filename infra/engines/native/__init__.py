"""The native engine: Real-ESRGAN networks run by ncnn on the CPU, in a process of their own.

The server side (`server` and what it imports) stays free of pydantic, Temporal and Postgres,
so that it is small when idle.
"""
