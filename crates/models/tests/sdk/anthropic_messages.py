"""The Messages of the package `anthropic`."""

import anthropic
from anthropic.types import content_block_param
from anthropic.types import message_create_params as params
from anthropic.types.beta import BetaThinkingConfigParam

from strict_types import check

ERRORS = (anthropic.APIError,)

STOP = {
    "end_turn": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "pause_turn": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


def invalid(request):
    thinking = request.get("thinking", {})
    if "block_binding" in thinking:
        # The setting is among the SDK's beta types only.
        unbound = {name: value for name, value in thinking.items() if name != "block_binding"}
        request = {**request, "thinking": unbound}
        if reason := check([BetaThinkingConfigParam], thinking):
            return reason
    reason = check([params.MessageCreateParamsStreaming], request)
    # A request may also hold blocks of replies, whose types allow any key; ours must be those of requests.
    for message in request["messages"]:
        for block in message["content"]:
            reason = reason or check([content_block_param.ContentBlockParam], block)
    return reason


def reply(asked):
    client = anthropic.Anthropic(api_key="test-key", base_url=asked["baseUrl"], max_retries=0)
    body = dict(asked["request"])
    body.pop("stream")
    with client.messages.stream(**body) as stream:
        ended = any(event.type == "message_stop" for event in stream)
        if not ended:
            return {"error": True}
        return described(stream.get_final_message())


def described(message):
    blocks = message.content
    return {
        "text": "".join(block.text for block in blocks if block.type == "text"),
        "thinking": [block.thinking for block in blocks if block.type == "thinking" and block.thinking],
        "calls": [
            {"name": block.name, "arguments": block.input} for block in blocks if block.type == "tool_use"
        ],
        "stopReason": STOP.get(message.stop_reason, "unknown"),
        "usage": tokens(message.usage),
    }


def tokens(usage):
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    counted = {
        "input": usage.input_tokens + (read or 0) + (written or 0),
        "output": usage.output_tokens,
    }
    if read is not None:
        counted["cached"] = read
    if written is not None:
        counted["cacheWrite"] = written
    if usage.output_tokens_details is not None:
        counted["reasoning"] = usage.output_tokens_details.thinking_tokens
    return counted
