"""The public stream events that the gateway makes, each without `sequence_number`: the turn numbers them as they leave.

Shapes: responses-api.md section 5, generated there from the openai 3.57 types.
"""

from gateway.wire.json import JSON


def item_added(output_index: int, item: JSON) -> JSON:
    return {"type": "response.output_item.added", "output_index": output_index, "item": item}


def item_done(output_index: int, item: JSON) -> JSON:
    return {"type": "response.output_item.done", "output_index": output_index, "item": item}


def part_added(item_id: str, output_index: int, content_index: int, part: JSON) -> JSON:
    return {
        "type": "response.content_part.added",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": content_index,
        "part": part,
    }


def part_done(item_id: str, output_index: int, content_index: int, part: JSON) -> JSON:
    return {
        "type": "response.content_part.done",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": content_index,
        "part": part,
    }


def delta(kind: str, item_id: str, output_index: int, text: str, **where: int | list[JSON]) -> JSON:
    """`response.<kind>.delta`; `where` holds `content_index`, `summary_index` or `logprobs`."""
    return {
        "type": f"response.{kind}.delta",
        "item_id": item_id,
        "output_index": output_index,
        **where,
        "delta": text,
    }


def done(
    kind: str, item_id: str, output_index: int, field: str, text: str, **where: int | list[JSON]
) -> JSON:
    """`response.<kind>.done`, whose text stands under `field`."""
    return {
        "type": f"response.{kind}.done",
        "item_id": item_id,
        "output_index": output_index,
        **where,
        field: text,
    }


def summary_part(step: str, item_id: str, output_index: int, summary_index: int, text: str) -> JSON:
    """`response.reasoning_summary_part.added` or `.done`."""
    return {
        "type": f"response.reasoning_summary_part.{step}",
        "item_id": item_id,
        "output_index": output_index,
        "summary_index": summary_index,
        "part": {"type": "summary_text", "text": text},
    }


def annotation_added(
    item_id: str, output_index: int, content_index: int, annotation_index: int, annotation: JSON
) -> JSON:
    return {
        "type": "response.output_text.annotation.added",
        "item_id": item_id,
        "output_index": output_index,
        "content_index": content_index,
        "annotation_index": annotation_index,
        "annotation": annotation,
    }


def lifecycle(kind: str, response: JSON) -> JSON:
    """`response.created`, `.in_progress`, `.completed`, `.incomplete`, `.failed`: each with the whole Response."""
    return {"type": f"response.{kind}", "response": response}
