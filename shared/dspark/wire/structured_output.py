"""Structured outputs on the wire."""

from __future__ import annotations

from dspark.errors import InvalidArgument
from dspark.structured_output import Structure, StructuredOutput
from dspark.v1 import sampling_pb2 as pb


def structured_to_proto(output: StructuredOutput) -> pb.StructuredOutput:
    message = pb.StructuredOutput(any_whitespace=output.any_whitespace)
    match output.structure:
        case Structure.JSON_OBJECT:
            message.json_object = True
        case Structure.CHOICE:
            message.choice.CopyFrom(pb.StructuredChoice(texts=output.choices))
        case _:
            setattr(message, output.structure.value, output.text)
    return message


def structured_from_proto(
    message: pb.StructuredOutput, path: str = "sampling.structured"
) -> StructuredOutput:
    """Raises InvalidArgument where no form is set."""
    name = message.WhichOneof("structure")
    if name is None or (name == "json_object" and not message.json_object):
        forms = ", ".join(structure.value for structure in Structure)
        raise InvalidArgument(path, f"one of {forms} must be set")
    structure, any_whitespace = Structure(name), message.any_whitespace
    match structure:
        case Structure.JSON_OBJECT:
            return StructuredOutput(structure, any_whitespace=any_whitespace)
        case Structure.CHOICE:
            return StructuredOutput(structure, choices=tuple(message.choice.texts))
        case _:
            return StructuredOutput(
                structure, getattr(message, name), any_whitespace=any_whitespace
            )
