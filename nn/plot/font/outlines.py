"""outlines.py DejaVuSans.ttf > dejavu_sans.txt: the outlines of the characters that figures can show, one to a line.

    HEX ADVANCE COMMANDS        e.g. 2d 370 m100,643l0-160 410 0 0 160z

in 1024ths of the font's size, y going down, relative as in an SVG path: m moves, l draws lines, q quadratic curves.
Needs fontTools."""

import sys

from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.ttLib import TTFont

CHARACTERS = [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x391, 0x3CA), *range(0x410, 0x452),
              *map(ord, "–—‘’“”…•ẞ←↑→↓↔↵−×·≈≠≤≥∞√∑∂∇∈€▁�␣⟨⟩⌀■●")]


def main():
    font = TTFont(sys.argv[1])
    glyphs, names, em = font.getGlyphSet(), font.getBestCmap(), font["head"].unitsPerEm
    scale = 1024 / em
    for code in CHARACTERS:
        if code not in names:
            continue
        pen = DecomposingRecordingPen(glyphs)
        glyphs[names[code]].draw(pen)
        at, text, start = (0, 0), "", (0, 0)

        def relative(points):
            nonlocal at
            out = ""
            origin = at
            for x, y in points:
                p = round(x * scale), round(-y * scale)
                for v in (p[0] - origin[0], p[1] - origin[1]):
                    out += ("" if v < 0 or out == "" else " ") + str(v)
                at = p
            return out

        for command, points in pen.value:
            if command == "moveTo":
                text += "m" + relative(points)
                start = at
            elif command == "lineTo":
                text += "l" + relative(points)
            elif command == "qCurveTo":
                points = list(points)
                if points[-1] is None:
                    sys.exit(f"{code:x}: a contour without a point on the curve")
                for i, control in enumerate(points[:-2]):
                    middle = tuple((a + b) / 2 for a, b in zip(control, points[i + 1]))
                    text += "q" + relative([control, middle])
                text += "q" + relative(points[-2:])
            elif command == "closePath":
                at = start
        print(f"{code:x} {round(glyphs[names[code]].width * scale)} {text}")


main()
