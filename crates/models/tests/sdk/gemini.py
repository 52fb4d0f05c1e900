"""The streams of `generate_content` of the package `google-genai`."""

import json

from google import genai
from google.genai import _common, errors, models, types
from pydantic import ValidationError
from pydantic.alias_generators import to_camel


class Unreadable(Exception):
    """The model wrote what cannot be read: the SDK hands the reason on, and our client makes it an error."""


ERRORS = (errors.APIError, Unreadable)

STOP = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "content_filter",
}

UNREADABLE = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"}


def client_of(base_url):
    options = types.HttpOptions(base_url=base_url, retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(api_key="test-key", http_options=options)


def parsed(request):
    """The request in the SDK's own types, which forbid unknown keys."""
    fields = dict(request)
    contents = [
        types.Content.model_validate_json(json.dumps(content)) for content in fields.pop("contents")
    ]
    config = {**fields.pop("generationConfig", {}), **fields}
    return contents, types.GenerateContentConfig.model_validate_json(json.dumps(config))


def invalid(request):
    """Why the SDK's types do not take a request, or how the SDK itself would have written it."""
    try:
        contents, config = parsed(request)
    except ValidationError as error:
        return str(error)
    client = client_of("http://localhost")
    asked = types._GenerateContentParameters(model="m", contents=contents, config=config)
    written = models._GenerateContentParameters_to_mldev(client._api_client, asked, None, asked)
    written = _common.encode_unserializable_types(_common.convert_to_dict(written))
    written = {name: value for name, value in written.items() if not name.startswith("_")}
    written = json.loads(json.dumps(written))
    ours = dict(request)
    # The order of the tools means nothing.
    for body in (written, ours):
        if "tools" in body:
            body["tools"] = sorted(body["tools"], key=lambda tool: "functionDeclarations" in tool)
    if not written.get("generationConfig"):
        written.pop("generationConfig", None)
    # The SDK writes a role that the provider does not need.
    written.get("systemInstruction", {}).pop("role", None)
    if plain(written) != plain(ours):
        return f"the SDK would write {json.dumps(plain(written))} for {json.dumps(plain(ours))}"
    return None


def plain(value):
    """A value with each base64 in one alphabet and all names in one style: the provider takes both, and the
    SDK mixes them."""
    if isinstance(value, dict):
        return {to_camel(name): plain_field(name, one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def plain_field(name, value):
    if name in ("thoughtSignature", "thought_signature", "data") and isinstance(value, str):
        return value.replace("-", "+").replace("_", "/")
    return plain(value)


def reply(asked):
    client = client_of(asked["baseUrl"])
    contents, config = parsed(asked["request"])
    stream = client.models.generate_content_stream(
        model=asked["model"], contents=contents, config=config
    )
    return assembled(stream)


def assembled(stream):
    text, thinking, calls, reason, usage = "", [], [], None, None
    grows = False
    for chunk in stream:
        usage = chunk.usage_metadata or usage
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            reason = "SAFETY"
        for candidate in chunk.candidates or []:
            if candidate.finish_reason:
                reason = candidate.finish_reason.value
            content = candidate.content
            for part in (content and content.parts) or []:
                if part.thought:
                    if grows and not part.thought_signature:
                        thinking[-1] += part.text or ""
                    else:
                        thinking.append(part.text or "")
                    grows = not part.thought_signature
                    continue
                if part.function_call:
                    call = part.function_call
                    calls.append({"name": call.name, "arguments": call.args or {}})
                elif part.text:
                    text += part.text
                grows = grows and not (part.function_call or part.text)
    if reason in UNREADABLE:
        raise Unreadable(reason)
    stop = STOP.get(reason, "unknown")
    return {
        "text": text,
        "thinking": [block for block in thinking if block],
        "calls": calls,
        "stopReason": "tool_use" if calls and stop == "end_turn" else stop,
        "usage": tokens(usage),
    }


def tokens(usage):
    if usage is None:
        return {"input": 0, "output": 0}
    prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    counted = {"input": prompt, "output": output}
    if usage.cached_content_token_count is not None:
        counted["cached"] = usage.cached_content_token_count
    if usage.thoughts_token_count is not None:
        counted["reasoning"] = usage.thoughts_token_count
    return counted
