"""Content of lowered items: strings and lists of parts, taken apart for servers that want less.

Text is always one string; images and files are kept apart and become chat parts on request.
"""

from typing import Any

from gateway.errors import RequestError
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON

# type of a part -> its field that holds the text
TEXT_FIELDS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}

# Chat Completions knows these; Codex also sends "original", which only the Responses API has.
CHAT_IMAGE_DETAILS = ("auto", "low", "high")


def text_of(content: Any, *, between: str, where: str) -> str:
    """The text of a content that may hold nothing but text.

    Raises:
        RequestError: there is a part that is no text.
    """
    if isinstance(content, str):
        return content
    texts = []
    for part in content or ():
        field = TEXT_FIELDS.get(part.get("type"))
        if field is None:
            raise RequestError(
                f"A part of type '{part.get('type')}' cannot be sent in {where}.",
                param="input",
                code="invalid_value",
            )
        texts.append(part.get(field) or "")
    return between.join(texts)


def is_text(content: Any) -> bool:
    """Whether `text_of` would take it."""
    return isinstance(content, str) or all(
        part.get("type") in TEXT_FIELDS for part in content or ()
    )


def check_part(part: JSON, profile: Profile) -> None:
    """Refuse what this server cannot see; a part that is silently lost misleads everybody.

    Raises:
        RequestError: with words on what to do.
    """
    kind = part.get("type")
    if kind in TEXT_FIELDS:
        return
    if kind == "input_image" and profile.images:
        return
    if kind == "input_file" and profile.files:
        return
    words = {
        "input_image": "This model server takes no images.",
        "input_file": "This model server takes no files; send their text instead.",
    }
    raise RequestError(
        words.get(str(kind), f"Content of type '{kind}' is not supported by this model server."),
        param="input",
        code="invalid_value",
    )


def chat_part(part: JSON, profile: Profile) -> JSON:
    """One part of a user message for /chat/completions.

    Raises:
        RequestError: the server cannot take it, or it names a file that only another API has.
    """
    check_part(part, profile)
    kind = part["type"]
    if kind == "input_image":
        return _chat_image(part)
    if kind == "input_file":
        return _chat_file(part)
    return {"type": "text", "text": part.get(TEXT_FIELDS[kind]) or ""}


def _chat_image(part: JSON) -> JSON:
    url = part.get("image_url")
    if not isinstance(url, str):
        raise RequestError(
            "An image must be given by image_url; file ids are unknown to this model server.",
            param="input",
            code="invalid_value",
        )
    image = {"url": url}
    if part.get("detail") in CHAT_IMAGE_DETAILS:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _chat_file(part: JSON) -> JSON:
    fields = {key: part[key] for key in ("filename", "file_data", "file_id") if part.get(key)}
    if not fields.keys() & {"file_data", "file_id"}:
        raise RequestError(
            "A file must be given by file_data; this model server fetches no URLs.",
            param="input",
            code="invalid_value",
        )
    return {"type": "file", "file": fields}


def split_output(output: Any, profile: Profile) -> tuple[str, list[JSON]]:
    """A tool's output as one text, and its images apart (Q49).

    An image for a server that takes none leaves a note in the text instead of an error: the model
    asked for it and is told, and the thread goes on.

    Raises:
        RequestError: a part is neither text nor image.
    """
    if isinstance(output, str):
        return output, []
    texts: list[str] = []
    images: list[JSON] = []
    for part in output or ():
        kind = part.get("type")
        if kind == "input_image" and profile.images:
            images.append(part)
            texts.append(f"[image {len(images)}: in the next user message]")
        elif kind == "input_image":
            texts.append("[image left out: this model server takes no images]")
        else:
            texts.append(text_of([part], between="", where="a tool output to this model server"))
    return "\n".join(texts), images
