"""Damage to files, drawn at random: each of these has happened to somebody's data."""

import gzip
import io
import json
import struct
from pathlib import Path

import numpy as np
import torch

MARKUP = (
    *('<img src=x onerror="alert(1)">', "[bold red]", "a,b", 'a"b', "a\nb", "\\textbf{x}"),
    *("{{ x }}", "%s %n", "é\u202e"),
)
ODD_VALUES = (
    *(
        None,
        True,
        -1,
        0,
        1e308,
        -0.5,
        10**30,
        float("nan"),
        float("inf"),
        "",
        " ",
        "nan",
        "case",
        [],
        {},
        [[]],
    ),
    *([1, "a"], {"a": None}, *MARKUP),
)


#: Places in the header of NIfTI, how numbers are written there, and odd ones.
FIELDS = (
    ((40, 42, 44, 46, 48, 70, 72), "<h", (-1, 0, 1, 2, 7, 16, 64, 128, 1792, 32767)),
    ((0,), "<i", (-1, 0, 1, 2, 7, 16, 64, 128, 1792, 32767)),
    (
        (76, 80, 84, 88, 108, 112, 116, 268, 280),
        "<f",
        (float("nan"), float("inf"), -1.0, 0.0, 1e30),
    ),
)


def damage(path: Path, rng: np.random.Generator) -> str:
    """Damage a file or folder in a way that fits it, and say how."""
    of_ending = {
        ".json": of_json,
        ".csv": of_table,
        ".gz": of_nifti,
        ".nii": of_nifti,
        ".pth": of_checkpoint,
    }
    kinds = [of_any, *[of_ending.get(path.suffix, of_any)] * 3]
    try:
        return kinds[rng.integers(len(kinds))](path, rng)
    except Exception:
        # An earlier damage has left nothing that this one fits.
        return of_any(path, rng)


def pick(rng, options):
    return options[rng.integers(len(options))]


def of_any(path, rng):
    how = pick(rng, ("empty", "cut", "bytes", "folder", "removed", "text", "twice"))
    content = path.read_bytes()
    if how in ("removed", "folder"):
        path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[: rng.integers(len(content) + 1)])
    elif how == "bytes":
        changed = bytearray(content or b"x")
        for _ in range(rng.integers(1, 20)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        path.write_bytes(bytes(changed))
    elif how == "text":
        path.write_bytes(
            pick(rng, (b"no such thing\n", b"\0" * 400, b"\xff\xfe\x00", "ÄÖ€\n".encode("utf-16")))
        )
    elif how == "twice":
        path.write_bytes(content + content)
    return how


def of_json(path, rng):
    content = json.loads(path.read_bytes())
    how = pick(rng, ("value", "value", "removed", "type", "encoding", "number", "deep"))
    if how == "type":
        content = pick(rng, (*ODD_VALUES, [content]))
    elif how == "deep":
        path.write_text("[" * 100_000)
        return how
    elif how == "number":
        path.write_text(json.dumps(content).replace("1", "1" * 5000, 1))
        return how
    elif how != "encoding":
        places = list(_places(content))
        if not places:
            return "nothing"
        how = _change(how, *pick(rng, places), rng)
    encoding = pick(rng, ("utf-16", "utf-8-sig", "latin-1")) if how == "encoding" else "utf-8"
    path.write_bytes(json.dumps(content).encode(encoding))
    return how


def _change(how, inside, key, rng):
    if how == "removed":
        del inside[key]
    else:
        inside[key] = pick(rng, ODD_VALUES)
    return f"{how} of {key!r}"


def _places(content):
    entries = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, value in list(entries):
        yield content, key
        yield from _places(value)


def of_table(path, rng):
    rows = [line.split(",") for line in path.read_text().splitlines()]
    kinds = ("heading", "row twice", "column twice", "shorter", "longer", "encoding", "quote")
    how = pick(rng, (*["entry"] * 3, *kinds))
    row = int(rng.integers(len(rows)))
    if how in ("entry", "heading"):
        row = 0 if how == "heading" else row
        column = int(rng.integers(len(rows[row])))
        entries = (
            "",
            " ",
            "nan",
            "inf",
            "-1",
            "1e999",
            "NA",
            "\0",
            "x" * 200_000,
            *rows[0],
            *MARKUP,
        )
        rows[row][column] = str(pick(rng, entries))
    elif how == "row twice":
        rows.append(rows[row])
    elif how == "column twice":
        rows = [[*one, one[-1]] for one in rows]
    elif how == "shorter":
        rows[row] = rows[row][:-1]
    elif how == "longer":
        rows[row] = [*rows[row], "x", "y"]
    elif how == "quote":
        rows[row][0] = '"' + rows[row][0]
    encoding = (
        pick(rng, ("utf-16", "utf-8-sig", "latin-1", "utf-32")) if how == "encoding" else "utf-8"
    )
    text = "\n".join(",".join(one) for one in rows) + "\n"
    path.write_bytes((text + "ä" if how == "encoding" else text).encode(encoding, "replace"))
    return how


def of_nifti(path, rng):
    content = path.read_bytes()
    is_packed = path.name.endswith(".gz")
    content = bytearray(gzip.decompress(content) if is_packed else content)
    how = pick(rng, ("field", "field", "values", "cut", "header"))
    if how == "field":
        offsets, form, odd = pick(rng, FIELDS)
        offset = pick(rng, offsets)
        struct.pack_into(form, content, offset, pick(rng, odd))
        how = f"field {offset}"
    elif how == "values":
        _write_values(path, rng)
        return how
    elif how == "cut":
        content = content[: rng.integers(len(content))]
    else:
        content = content[:348]
    path.write_bytes(gzip.compress(bytes(content)) if is_packed else bytes(content))
    return how


def _write_values(path, rng):
    import SimpleITK

    values = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))
    odd = pick(rng, ("negative", "nan", "fraction", "shape", "huge", "two", "other grid"))
    if odd == "negative":
        values = values.astype(np.int16) - 3
    elif odd in ("nan", "fraction"):
        values = values.astype(np.float32)
        values.flat[3] = np.nan if odd == "nan" else 0.4
    elif odd == "shape":
        values = values[:, :-1]
    elif odd == "huge":
        values = values.astype(np.int32)
        values.flat[5] = 2**31 - 1
    elif odd == "two":
        values = np.stack([values, values])
    written = SimpleITK.GetImageFromArray(values)
    if odd == "other grid":
        written.SetSpacing((1, 2, 0.5)[: written.GetDimension()])
    SimpleITK.WriteImage(written, str(path))


def of_checkpoint(path, rng):
    content = torch.load(path, map_location="cpu", weights_only=False)
    how = pick(rng, ("value", "value", "removed", "type", "zip"))
    if how == "zip":
        path.write_bytes(b"PK\x03\x04" + rng.bytes(300))
        return how
    if how == "type":
        content = pick(rng, (*ODD_VALUES, [content]))
    else:
        places = [(content, key) for key in content]
        for key in ("init_args", "network_weights"):
            if isinstance(content.get(key), dict):
                places += [(content[key], inner) for inner in list(content[key])[:6]]
        how = _change(how, *pick(rng, places), rng)
    written = io.BytesIO()
    torch.save(content, written)
    path.write_bytes(written.getvalue())
    return how


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
