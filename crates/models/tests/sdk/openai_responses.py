"""The Responses of the package `openai`."""

import json

import openai
from openai.types.responses import response_create_params as params

from strict_types import check


class StreamError(Exception):
    """An error that the SDK gives as an event."""


ERRORS = (openai.APIError, StreamError)

INCOMPLETE = {
    "max_output_tokens": "max_tokens",
    "content_filter": "content_filter",
}


def invalid(request):
    return check([params.ResponseCreateParamsStreaming], request)


def reply(asked):
    client = openai.OpenAI(api_key="test-key", base_url=asked["baseUrl"], max_retries=0)
    body = dict(asked["request"])
    body.pop("stream")
    with client.responses.create(stream=True, **body) as stream:
        for event in stream:
            if event.type == "error":
                raise StreamError(event.code)
            if event.type == "response.failed":
                raise StreamError(event.response.error.code)
            if event.type in ("response.completed", "response.incomplete"):
                return described(event.response)
    raise StreamError("the stream ended too early")


def described(response):
    """Describes the whole response that the last event carries; our client reads the pieces before it."""
    text, refusal, thinking, calls = "", "", [], []
    for item in response.output:
        if item.type == "message":
            for part in item.content:
                text += part.text if part.type == "output_text" else ""
                refusal += part.refusal if part.type == "refusal" else ""
        elif item.type == "reasoning" and item.summary:
            thinking.append("\n\n".join(part.text for part in item.summary))
        elif item.type == "function_call":
            calls.append({"name": item.name, "arguments": arguments(item.arguments)})
    return {
        "text": text + refusal,
        "thinking": thinking,
        "calls": calls,
        "stopReason": stop_reason(response, calls, refusal),
        "usage": tokens(response.usage),
    }


def stop_reason(response, calls, refusal):
    if response.status == "incomplete":
        return INCOMPLETE.get(response.incomplete_details.reason, "unknown")
    if calls:
        return "tool_use"
    return "refusal" if refusal else "end_turn"


def arguments(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def tokens(usage):
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.input_tokens_details.cached_tokens,
        "cacheWrite": usage.input_tokens_details.cache_write_tokens,
        "reasoning": usage.output_tokens_details.reasoning_tokens,
    }
