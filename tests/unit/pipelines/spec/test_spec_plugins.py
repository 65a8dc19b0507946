"""Options of transforms, predicates and formats are held against their models, with lines."""

from kvorum.pipelines import formats, spec, transforms

WRONG = """\
name: a
source:
  type: topics
  value: {format: jsn}
  key:
    format: csv
    delimeter: ";"
transforms:
  - type: InsertField$Value
    static.feld: a
  - {type: InsertFeild$Value, topic.field: t}
  - type: TimestampConverter$Value
    target.type: date
  - {type: sql, statements: []}
predicates:
  p: {type: HasHeaderKey}
sink: {type: topics}
"""


def test_options_are_told_with_their_line() -> None:
    made = spec.loads(WRONG)
    wrong = made.parts.wrong_settings({**transforms.models(), **formats.models()}, made.places)
    assert [str(problem).removeprefix("<pipeline>:") for problem in spec.SpecError(wrong).problems] == [
        "4:11: source.value.format: there is no format 'jsn'; did you mean 'json'?",
        "7:5: source.key.delimeter: unknown key; did you mean 'delimiter'?",
        "10:5: transforms[0].static.feld: unknown key; did you mean 'static.field'?",
        "11:6: transforms[1].type: there is no transform 'InsertFeild'; did you mean 'InsertField'?",
        "13:5: transforms[2].target.type: 'date' is not one of 'string', 'unix', 'Date', 'Time' or 'Timestamp'"
        "; did you mean 'Date'?",
        "14:17: transforms[3].statements: list should have at least 1 item after validation, not 0",
        "16:3: predicates.p.name: is missing",
    ]
