"""Reads and writes items as CSV, NDJSON and JSON with Python's csv and json modules.

python3 exchange.py read <format> <file>: prints the items as NDJSON with sorted members.
python3 exchange.py write <format> <ndjson> <file>: writes the items of an NDJSON file.
"""

import csv
import json
import sys

csv.field_size_limit(sys.maxsize)


def value_of(text, kind):
    return text if kind == "string" else json.loads(text)


def kind_of(values):
    kinds = {
        "boolean" if isinstance(v, bool) else
        "number" if isinstance(v, (int, float)) else
        "string" if isinstance(v, str) else "json"
        for v in values
    }
    return kinds.pop() if len(kinds) == 1 else "json"


def read(form, path):
    if form == "csv":
        with open(path, newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        columns = [name.rpartition(":") for name in header]
        return [
            # Python does not tell an empty text from an absent member.
            {name: value_of(cell, kind) for (name, _, kind), cell in zip(columns, row) if cell != ""}
            for row in rows
        ]
    with open(path, encoding="utf-8") as file:
        return json.load(file) if form == "json" else [json.loads(line) for line in file]


def write(form, items, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        if form == "csv":
            values = {}
            for item in items:
                for name, value in item.items():
                    values.setdefault(name, []).append(value)
            kinds = {name: kind_of(found) for name, found in values.items()}
            writer = csv.writer(file)
            writer.writerow(f"{name}:{kind}" for name, kind in kinds.items())
            for item in items:
                writer.writerow(
                    "" if name not in item else
                    item[name] if kind == "string" else json.dumps(item[name])
                    for name, kind in kinds.items()
                )
        elif form == "json":
            json.dump(items, file, indent=1)
        else:
            file.writelines(json.dumps(item) + "\n" for item in items)


def text_of(items):
    lines = [json.dumps(item, sort_keys=True, ensure_ascii=False) for item in items]
    return "".join(line + "\n" for line in lines)


def main(action, form, path, *out):
    if action == "read":
        sys.stdout.buffer.write(text_of(read(form, path)).encode())
    else:
        write(form, read("ndjson", path), *out)


main(*sys.argv[1:])
