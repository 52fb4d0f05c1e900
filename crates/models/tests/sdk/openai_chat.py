"""The Chat Completions of the package `openai`."""

import json

import openai
from openai.types.chat import completion_create_params as params

from strict_types import check

ERRORS = (openai.APIError,)

STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filter",
}


def invalid(request):
    return check([params.CompletionCreateParamsStreaming], request)


def reply(asked):
    client = openai.OpenAI(api_key="test-key", base_url=asked["baseUrl"], max_retries=0)
    body = dict(asked["request"])
    body.pop("stream")
    with client.chat.completions.create(stream=True, **body) as stream:
        return assembled(stream)


def assembled(stream):
    text, refusal, thinking, calls, reason, usage = "", "", "", {}, None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            delta = choice.delta
            text += delta.content or ""
            refusal += delta.refusal or ""
            thinking += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or []:
                known = calls.setdefault(call.index, {"name": "", "arguments": ""})
                known["name"] += call.function.name or ""
                known["arguments"] += call.function.arguments or ""
            reason = choice.finish_reason or reason
    return {
        "text": text + refusal,
        "thinking": [thinking] if thinking else [],
        "calls": [
            {"name": call["name"], "arguments": arguments(call["arguments"])}
            for call in calls.values()
        ],
        "stopReason": "refusal" if refusal else STOP.get(reason, "unknown"),
        "usage": tokens(usage),
    }


def arguments(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def tokens(usage):
    if usage is None:
        return {"input": 0, "output": 0}
    counted = {"input": usage.prompt_tokens, "output": usage.completion_tokens}
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    if prompt is not None and prompt.cached_tokens is not None:
        counted["cached"] = prompt.cached_tokens
    if completion is not None and completion.reasoning_tokens is not None:
        counted["reasoning"] = completion.reasoning_tokens
    return counted
