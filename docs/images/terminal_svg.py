"""The last screen of a recorded terminal as an SVG.

usage: script -qec 'stty cols 84; millwright apply ...' run.typescript; terminal_svg.py 'millwright apply ...' <run.typescript >run.svg
Knows what the live view uses: colours, bold, cursor up, erase below. Other control sequences are left out.
"""
import html
import re
import sys

COLOURS = {"31": "#f47067", "32": "#57ab5a", "33": "#c69026", "34": "#539bf5", "35": "#b083f0", "36": "#39c5cf", "90": "#768390"}
SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[@-Z\\-_]|\r|\n|[^\x00-\x1f\x7f]")
LINE, GLYPH, MARGIN = 19, 7.83, 16


def screen(text):
    """Rows of (character, style) as they stand when the recording ends."""
    rows, row, column, style = [[]], 0, 0, ""
    for match in SEQUENCE.finditer(text):
        piece = match.group()
        if match.group(2) == "A":
            row = max(0, row - int(match.group(1) or 1))
        elif match.group(2) == "J":
            del rows[row + 1:], rows[row][column:]
        elif match.group(2) == "K":
            del rows[row][column:]
        elif match.group(2) == "m":
            style = "" if match.group(1) in ("", "0") else (style + ";" + match.group(1)).strip(";")
        elif piece == "\r":
            column = 0
        elif piece == "\n":
            row += 1
            column = 0
            while len(rows) <= row:
                rows.append([])
        elif not piece.startswith("\x1b"):
            line = rows[row]
            line.extend([(" ", "")] * (column + 1 - len(line)))
            line[column] = (piece, style)
            column += 1
    return rows


def spans(row):
    at = 0
    while at < len(row):
        end = at
        while end < len(row) and row[end][1] == row[at][1]:
            end += 1
        yield "".join(character for character, _ in row[at:end]), row[at][1].split(";")
        at = end


def svg(rows):
    while rows and not any(character.strip() for character, _ in rows[-1]):
        rows.pop()
    width = round(2 * MARGIN + GLYPH * max(len(row) for row in rows))
    height = 2 * MARGIN + LINE * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="13">',
           f'<rect width="{width}" height="{height}" rx="8" fill="#22272e"/>']
    for number, row in enumerate(rows):
        words = ""
        for text, style in spans(row):
            colour = next((COLOURS[part] for part in style if part in COLOURS), "#adbac7")
            bold = ' font-weight="bold"' if "1" in style else ""
            words += f'<tspan fill="{colour}"{bold}>{html.escape(text)}</tspan>'
        out.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 13}" xml:space="preserve" '
                   f'textLength="{GLYPH * len(row):.0f}" lengthAdjust="spacingAndGlyphs">{words}</text>' if row else "")
    return "\n".join(line for line in [*out, "</svg>"] if line) + "\n"


def main():
    text = sys.stdin.buffer.read().decode(errors="replace")
    text = re.sub(r"\A(Script started[^\n]*\n)?", "", text)
    text = re.sub(r"\n?\n?Script done on[^\n]*\n\Z", "", text)
    command = f"\x1b[1m$ {sys.argv[1]}\x1b[0m\n" if len(sys.argv) > 1 else ""
    sys.stdout.write(svg(screen(command + text)))


if __name__ == "__main__":
    main()
