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


# Fields of servers that are compatible with OpenAI, and that its SDK does not know.
EXTENSIONS = {"reasoning_content"}


def invalid(request):
    messages = [
        {name: known(value) for name, value in message.items() if name not in EXTENSIONS}
        for message in request["messages"]
    ]
    return check([params.CompletionCreateParamsStreaming], {**request, "messages": messages})


def known(value):
    """Returns the content of a message without thinking, which Mistral has among its parts."""
    if not isinstance(value, list):
        return value
    return [part for part in value if part.get("type") != "thinking"]


def reply(asked):
    client = openai.OpenAI(api_key="test-key", base_url=asked["baseUrl"], max_retries=0)
    body = dict(asked["request"])
    body.pop("stream")
    with client.chat.completions.create(stream=True, **body) as stream:
        return assembled(stream)


def assembled(stream):
    text, refusal, thinking, calls, reason, usage = "", "", "", {}, None, None
    ids = {}
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            delta = choice.delta
            for part in parts(delta.content):
                text += part.get("text", "")
                thinking += "".join(one.get("text", "") for one in part.get("thinking", []))
            refusal += delta.refusal or ""
            thinking += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or []:
                # Some servers send no index, or the same one for all calls: the last id with it counts.
                index = getattr(call, "index", None)
                ids[index] = call.id or ids[index]
                known = calls.setdefault(ids[index], {"name": "", "arguments": ""})
                known["name"] = call.function.name or known["name"]
                known["arguments"] += whole(call.function.arguments)
            reason = choice.finish_reason or reason
    stop = STOP.get(reason, "unknown")
    if stop == "end_turn" and (calls or refusal):
        stop = "tool_use" if calls else "refusal"
    return {
        "text": text + refusal,
        "thinking": [thinking] if thinking else [],
        "calls": [
            {"name": call["name"], "arguments": arguments(call["arguments"])}
            for call in calls.values()
        ],
        "stopReason": stop,
        "usage": tokens(usage),
    }


def parts(content):
    """Returns content as parts; Mistral's models send it so."""
    return content if isinstance(content, list) else [{"text": content or ""}]


def whole(arguments):
    """Returns a piece of arguments as a text; some servers send an object."""
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""


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
    if prompt is not None and prompt.cache_write_tokens is not None:
        counted["cacheWrite"] = prompt.cache_write_tokens
    if completion is not None and completion.reasoning_tokens is not None:
        counted["reasoning"] = completion.reasoning_tokens
    return counted
