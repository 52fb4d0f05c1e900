"""Plays cassettes to a provider's own SDK.

Reads one request per line from standard input, checks it against the SDK's types, sends it with the SDK, and
prints what the SDK made of the reply, in the form of the cassettes' `expect`.
"""

import importlib
import json
import sys

PROVIDERS = {
    "openai": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "gemini": "gemini",
}


def main():
    provider = importlib.import_module(PROVIDERS[sys.argv[1]])
    for line in sys.stdin:
        asked = json.loads(line)
        invalid = provider.invalid(asked["request"])
        try:
            reply = provider.reply(asked)
        except provider.ERRORS as error:
            print(f"{asked['cassette']}: {type(error).__name__}: {error}", file=sys.stderr)
            reply = {"error": True}
        print(json.dumps({"invalid": invalid, "reply": reply}), flush=True)


if __name__ == "__main__":
    main()
